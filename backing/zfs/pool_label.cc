// See pool_label.h.
#include "backing/zfs/pool_label.h"

#include <unistd.h>

#include <optional>
#include <string_view>
#include <vector>

#include "backing/zfs/zfs_output.h"

namespace zvolt::backing {

namespace {

constexpr uint8_t kEncodingXdr = 1;   // NV_ENCODE_XDR, first byte of the four before the list
constexpr size_t kListHeader = 12;    // those four, version, flags
constexpr uint32_t kTypeString = 9;   // DATA_TYPE_STRING
constexpr size_t kMaxPoolName = 256;  // bytes, with the NUL
constexpr size_t kPairHeader = 8;     // encoded size, decoded size

// Big-endian words and padded strings, never beyond the end.
class XdrReader {
 public:
  explicit XdrReader(std::span<const uint8_t> bytes) : bytes_(bytes) {}

  std::optional<uint32_t> word() {
    if (bytes_.size() < 4) return std::nullopt;
    const uint32_t value = static_cast<uint32_t>(bytes_[0]) << 24 | static_cast<uint32_t>(bytes_[1]) << 16 |
                           static_cast<uint32_t>(bytes_[2]) << 8 | static_cast<uint32_t>(bytes_[3]);
    bytes_ = bytes_.subspan(4);
    return value;
  }

  std::optional<std::string_view> string() {
    const std::optional<uint32_t> length = word();
    if (!length || *length > kMaxPoolName) return std::nullopt;
    const size_t padded = (*length + size_t{3}) / 4 * 4;
    if (bytes_.size() < padded) return std::nullopt;
    const std::string_view text(reinterpret_cast<const char*>(bytes_.data()), *length);
    bytes_ = bytes_.subspan(padded);
    return text;
  }

 private:
  std::span<const uint8_t> bytes_;
};

std::string string_of_pair(std::span<const uint8_t> pair, const std::string& key) {
  XdrReader reader(pair.subspan(kPairHeader));
  const std::optional<std::string_view> name = reader.string();
  if (!name || *name != key) return "";
  const std::optional<uint32_t> type = reader.word();
  const std::optional<uint32_t> elements = reader.word();
  if (!type || *type != kTypeString || !elements || *elements != 1) return "";
  return std::string(reader.string().value_or(""));
}

}  // namespace

std::string nvlist_string(std::span<const uint8_t> list, const std::string& key) {
  if (list.size() < kListHeader || list[0] != kEncodingXdr) return "";
  list = list.subspan(kListHeader);
  for (;;) {
    const std::optional<uint32_t> size = XdrReader(list).word();
    if (!size || *size < kPairHeader || *size > list.size()) return "";  // 0: the end of the list
    if (std::string value = string_of_pair(list.first(*size), key); !value.empty()) return value;
    list = list.subspan(*size);
  }
}

std::string pool_on_device(int fd) {
  std::vector<uint8_t> list(kLabelListSize);
  const ssize_t got = pread(fd, list.data(), list.size(), kLabelListOffset);
  if (got <= 0) return "";
  return printable(nvlist_string(std::span(list).first(static_cast<size_t>(got)), "name"));
}

}  // namespace zvolt::backing
