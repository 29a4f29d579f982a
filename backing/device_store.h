// DeviceStore: a block device, zvols included, that stays for as long as the store. Made by open_device(), and by
// FollowedDevice for each opening of a device that may go and come back. Threading as BlockStore.
#pragma once

#include "backing/fd_store.h"

namespace zvolt::backing {

class DeviceStore final : public FdStore {
 public:
  DeviceStore(FdSetup setup, bool punch) : FdStore(std::move(setup)), punch_(punch) {}

 protected:
  int zero_aligned(uint64_t offset, uint64_t length) override;
  int discard_granules(uint64_t offset, uint64_t length) override;
  // A block device does not tell which of its blocks are allocated.
  int extent_at(uint64_t, uint64_t length, bool& mapped, uint64_t& extent) override {
    mapped = true;
    extent = length;
    return 0;
  }
  Result<uint64_t> read_size() override;

 private:
  const bool punch_;  // discard by PUNCH_HOLE: unmaps and promises zeros, where the device has WRITE ZEROES
};

}  // namespace zvolt::backing
