// GET LBA STATUS: which blocks hold data, as the store knows it. QEMU asks before every copy and skips what is not
// mapped; Windows asks when it trims. A store that cannot tell says mapped. SBC-3 5.9.
#include <algorithm>
#include <memory>
#include <vector>

#include "scsi/bytes.h"
#include "scsi/handlers.h"
#include "scsi/job.h"
#include "scsi/logical_unit.h"
#include "scsi/media.h"
#include "scsi/media_error.h"

namespace zvolt::scsi {

namespace {

constexpr size_t kHeader = 8, kDescriptor = 16;
// Descriptors of one answer: each may cost a system call, and the initiator asks again from where an answer ends.
constexpr size_t kMaxDescriptors = 32;
constexpr uint8_t kMapped = 0, kDeallocated = 1;

class LbaStatusJob : public StepJob {
 public:
  LbaStatusJob(uint64_t lba, uint64_t end, uint32_t block, uint32_t allocation_length)
      : lba_(lba), end_(end), block_(block), allocation_length_(allocation_length) {
    const size_t room = allocation_length > kHeader ? (allocation_length - kHeader) / kDescriptor : 0;
    most_ = std::clamp<size_t>(room, 1, kMaxDescriptors);
  }

 protected:
  Next next(Task& task) override {
    // A last descriptor that could have been longer is allowed: the initiator asks again from its end.
    if (lba_ >= end_ || extents_.size() == most_) return Next::done;
    task.io.kind = backing::IoKind::allocation_status;
    task.io.offset = lba_ * block_;
    task.io.length = (end_ - lba_) * block_;
    return Next::submit;
  }

  void completed(Task& task) override {
    // Whole blocks of the extent; a block that is only partly a hole holds data.
    const uint64_t known = std::min(task.io.extent_length, task.io.length);
    uint64_t blocks = task.io.mapped ? (known + block_ - 1) / block_ : known / block_;
    const bool mapped = task.io.mapped || blocks == 0;
    if (blocks == 0) blocks = known == 0 ? end_ - lba_ : 1;
    blocks = std::min<uint64_t>(blocks, UINT32_MAX);
    const bool joins =
        !extents_.empty() && extents_.back().mapped == mapped && extents_.back().blocks + blocks <= UINT32_MAX;
    if (joins) {
      extents_.back().blocks += blocks;
    } else {
      extents_.push_back({lba_, blocks, mapped});
    }
    lba_ += blocks;
  }

  void conclude(Task& task) override {
    std::vector<uint8_t> out(kHeader + extents_.size() * kDescriptor);
    put32(out.data(), out.size() - 4);
    for (size_t i = 0; i < extents_.size(); ++i) {
      uint8_t* descriptor = out.data() + kHeader + i * kDescriptor;
      put64(descriptor, extents_[i].lba);
      put32(descriptor + 8, extents_[i].blocks);
      descriptor[12] = extents_[i].mapped ? kMapped : kDeallocated;
    }
    answer(task, out, allocation_length_);
  }

  void failed(Task& task) override { fail_by_errno(task, task.error, StoreOperation::read, task.error_offset); }

 private:
  struct Extent {
    uint64_t lba;
    uint64_t blocks;
    bool mapped;
  };
  uint64_t lba_, end_;
  uint32_t block_;
  uint32_t allocation_length_;
  size_t most_ = 1;
  std::vector<Extent> extents_;
};

}  // namespace

void get_lba_status(const UnitCall& call) {
  if (!media_range(call, call.cdb.lba, 1)) return;
  StepJob::begin(call.task, std::make_unique<LbaStatusJob>(call.cdb.lba, call.unit.blocks(), call.unit.block_size(),
                                                           static_cast<uint32_t>(call.cdb.length)));
}

}  // namespace zvolt::scsi
