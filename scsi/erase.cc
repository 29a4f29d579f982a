// See erase.h.
#include "scsi/erase.h"

#include <algorithm>
#include <utility>

#include "scsi/logical_unit.h"
#include "scsi/media.h"
#include "scsi/media_error.h"

namespace zvolt::scsi {

namespace {

// One discard or write-zeroes request, in bytes: a store works on it in one go, other commands wait behind no more.
constexpr uint64_t kErasePiece = uint64_t{32} << 20;

std::vector<ByteRange> merged(std::vector<ByteRange> ranges) {
  std::erase_if(ranges, [](const ByteRange& range) { return range.length == 0; });
  std::sort(ranges.begin(), ranges.end(), [](const ByteRange& a, const ByteRange& b) { return a.offset < b.offset; });
  std::vector<ByteRange> out;
  for (const ByteRange& range : ranges) {
    if (out.empty() || range.offset > out.back().offset + out.back().length) {
      out.push_back(range);
      continue;
    }
    ByteRange& last = out.back();
    last.length = std::max(last.length, range.offset + range.length - last.offset);
  }
  return out;
}

uint64_t granule_at_or_after(uint64_t offset, uint64_t granularity, uint64_t alignment) {
  if (offset <= alignment) return alignment;
  return alignment + (offset - alignment + granularity - 1) / granularity * granularity;
}

uint64_t granule_at_or_before(uint64_t offset, uint64_t granularity, uint64_t alignment) {
  if (offset < alignment) return 0;
  return alignment + (offset - alignment) / granularity * granularity;
}

class EraseJob : public StepJob {
 public:
  explicit EraseJob(std::vector<EraseSegment> plan) : plan_(std::move(plan)) {}

 protected:
  Next next(Task& task) override {
    while (at_ < plan_.size() && plan_[at_].range.length == 0) ++at_;
    if (at_ == plan_.size()) return Next::done;
    const EraseSegment& segment = plan_[at_];
    task.io.offset = segment.range.offset;
    switch (segment.step) {
      case EraseStep::discard:
        task.io.kind = backing::IoKind::discard;
        task.io.length = std::min(segment.range.length, discard_piece(task));
        break;
      case EraseStep::write_zeroes:
        task.io.kind = backing::IoKind::write_zeroes;
        task.io.length = std::min(segment.range.length, kErasePiece);
        break;
      case EraseStep::zero_mapped:
        next_of_edge(task, segment.range);
        break;
    }
    return Next::submit;
  }

  void completed(Task& task) override {
    if (task.io.kind != backing::IoKind::allocation_status) return advance(task.io.length);
    // An extent of unknown length counts as data to the end of what was asked.
    const uint64_t extent =
        task.io.extent_length == 0 ? task.io.length : std::min(task.io.extent_length, task.io.length);
    if (!task.io.mapped && task.io.extent_length != 0) return advance(extent);
    mapped_bytes_ = extent;
  }

  void conclude(Task& task) override { finish_write(task); }
  void failed(Task& task) override { fail_by_errno(task, task.error, StoreOperation::write, task.error_offset); }

 private:
  // Whole granules, so that no cut makes an edge of its own.
  static uint64_t discard_piece(const Task& task) {
    const uint64_t granularity = std::max(task.lu->store().geometry().discard_granularity, 1u);
    return std::max(kErasePiece / granularity, uint64_t{1}) * granularity;
  }

  void next_of_edge(Task& task, const ByteRange& edge) {
    if (mapped_bytes_ == 0) {
      task.io.kind = backing::IoKind::allocation_status;
      task.io.length = edge.length;
      return;
    }
    // What says that it is mapped may not know (a device): the store looks for itself.
    task.io.kind = backing::IoKind::write_zeroes;
    task.io.spare_holes = true;
    task.io.length = std::min(mapped_bytes_, kErasePiece);
  }

  void advance(uint64_t bytes) {
    ByteRange& range = plan_[at_].range;
    range.offset += bytes;
    range.length -= bytes;
    mapped_bytes_ -= std::min(mapped_bytes_, bytes);
  }

  std::vector<EraseSegment> plan_;
  size_t at_ = 0;
  uint64_t mapped_bytes_ = 0;  // at the start of the current edge: known to hold data
};

}  // namespace

std::vector<EraseSegment> plan_discard(std::vector<ByteRange> ranges, uint64_t granularity, uint64_t alignment,
                                       bool zero_edges) {
  std::vector<EraseSegment> whole, edges;
  const auto add_edge = [&](uint64_t begin, uint64_t end) {
    if (zero_edges && begin < end) edges.push_back({EraseStep::zero_mapped, {begin, end - begin}});
  };
  for (const ByteRange& range : merged(std::move(ranges))) {
    const uint64_t end = range.offset + range.length;
    const uint64_t first = granule_at_or_after(range.offset, granularity, alignment);
    const uint64_t last = granule_at_or_before(end, granularity, alignment);
    if (first >= last) {
      add_edge(range.offset, end);
      continue;
    }
    whole.push_back({EraseStep::discard, {first, last - first}});
    add_edge(range.offset, first);
    add_edge(last, end);
  }
  whole.insert(whole.end(), edges.begin(), edges.end());
  return whole;
}

void erase_unmap(Task& task, std::vector<ByteRange> ranges) {
  const backing::Geometry& geometry = task.lu->store().geometry();
  // A store that came back as another kind of device may have lost its discard since the command was checked.
  const uint64_t granularity = std::max(geometry.discard_granularity, 1u);
  StepJob::begin(task, std::make_unique<EraseJob>(plan_discard(std::move(ranges), granularity,
                                                               geometry.discard_alignment, geometry.discard_zeroes)));
}

void erase_to_zeros(Task& task, ByteRange range, bool may_unmap) {
  if (may_unmap && task.lu->limits().unmapped_reads_zero) return erase_unmap(task, {range});
  std::vector<EraseSegment> plan{{EraseStep::write_zeroes, range}};
  StepJob::begin(task, std::make_unique<EraseJob>(std::move(plan)));
}

}  // namespace zvolt::scsi
