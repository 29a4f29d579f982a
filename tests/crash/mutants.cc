// See mutants.h.
#include "tests/crash/mutants.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <deque>

#include "backing/io_engine.h"

namespace zvolt::crash {

using backing::BlockStore;
using backing::IoEngine;
using backing::IoKind;
using backing::IoRequest;
using backing::Submitted;

namespace {

constexpr std::array<const char*, kMutants> kNames{
    "none",
    "log-flush-lies",
    "store-flush-lies",
    "keeper-forgets-leaving",
    "early-fua",
    "early-flush",
    "ranged-flush",
    "loses-a-write",
    "writes-half",
    "mixes-a-sector",
    "reads-the-store",
    "late-write",
    "answers-twice",
    "never-answers",
    "discards-nothing",
    "discards-too-much",
    "unheld-snapshot",
    "drain-does-nothing",
    "forgets-the-ring",
    "reopens-silently",
};

class MutantStore final : public BlockStore {
 public:
  MutantStore(Mutant mutant, std::shared_ptr<BlockStore> store, std::shared_ptr<BlockStore> inner, Rng& rng)
      : mutant_(mutant), store_(std::move(store)), inner_(std::move(inner)), rng_(rng) {}

  const backing::Geometry& geometry() const override { return store_->geometry(); }
  uint64_t size_bytes() const override { return store_->size_bytes(); }
  const std::string& describe() const override { return store_->describe(); }
  Submitted submit(IoRequest& request, IoEngine& engine) override {
    request.error = 0;
    if (request.kind == IoKind::read) return read(request, engine);
    if (request.kind == IoKind::flush) return flush(request, engine);
    if (request.kind == IoKind::discard) return discard(request, engine);
    return change(request, engine);
  }

 private:
  Submitted read(IoRequest& request, IoEngine& engine) {
    if (mutant_ == Mutant::reads_the_store) return inner_->submit(request, engine);
    return store_->submit(request, engine);
  }
  Submitted flush(IoRequest& request, IoEngine& engine) {
    if (mutant_ == Mutant::early_flush) return Submitted::done;
    if (mutant_ == Mutant::ranged_flush_does_nothing && request.length != 0) return Submitted::done;
    return store_->submit(request, engine);
  }
  Submitted discard(IoRequest& request, IoEngine& engine) {
    if (mutant_ == Mutant::discards_nothing) return Submitted::done;
    if (mutant_ == Mutant::discards_too_much) request.kind = IoKind::write_zeroes;
    return change(request, engine);
  }
  Submitted change(IoRequest& request, IoEngine& engine) {
    if (mutant_ == Mutant::early_fua) request.fua = false;
    if (mutant_ == Mutant::never_answers && rng_.one_in(40)) return Submitted::pending;
    if (mutant_ == Mutant::answers_twice && rng_.one_in(40)) {
      const Submitted submitted = store_->submit(request, engine);
      if (submitted == Submitted::done) engine.post([](void* r) { twice(*static_cast<IoRequest*>(r)); }, &request);
      return submitted == Submitted::done ? Submitted::done : submitted;
    }
    if (request.kind != IoKind::write) return store_->submit(request, engine);
    if (mutant_ == Mutant::loses_a_write && rng_.one_in(20)) return Submitted::done;
    if (mutant_ == Mutant::writes_half && rng_.one_in(20) && request.length > 512) {
      request.length = request.length / 1024 * 512;
      const size_t half = std::min<size_t>(request.iov[0].iov_len, request.length);
      parts_.push_back({request.iov[0].iov_base, half});  // the request may wait: it keeps its own
      request.length = half;
      request.iov = &parts_.back();
      request.iov_count = 1;
    }
    if (mutant_ == Mutant::mixes_a_sector && rng_.one_in(20)) {
      memset(static_cast<uint8_t*>(request.iov[0].iov_base) + 128, 0x5a, 8);
    }
    if (mutant_ == Mutant::late_write && late_.size() < 4 && rng_.one_in(10)) return keep_back(request);
    const Submitted submitted = store_->submit(request, engine);
    if (!late_.empty() && rng_.one_in(4)) send_late(engine);
    return submitted;
  }
  static void twice(IoRequest& request) { request.done(request); }

  // Acknowledged, and sent when others have been.
  Submitted keep_back(const IoRequest& request) {
    auto late = std::make_unique<Late>();
    late->bytes.resize(request.length);
    uint64_t at = 0;
    for (uint32_t i = 0; i < request.iov_count; ++i) {
      memcpy(late->bytes.data() + at, request.iov[i].iov_base, request.iov[i].iov_len);
      at += request.iov[i].iov_len;
    }
    late->iov = {late->bytes.data(), late->bytes.size()};
    late->request.kind = IoKind::write;
    late->request.offset = request.offset;
    late->request.length = request.length;
    late->request.iov = &late->iov;
    late->request.iov_count = 1;
    late->request.done = [](IoRequest&) noexcept {};
    late_.push_back(std::move(late));
    return Submitted::done;
  }
  void send_late(IoEngine& engine) {
    sent_.push_back(std::move(late_.front()));
    late_.erase(late_.begin());
    store_->submit(sent_.back()->request, engine);
  }

  struct Late {
    IoRequest request;
    std::vector<uint8_t> bytes;
    iovec iov{};
  };
  Mutant mutant_;
  std::shared_ptr<BlockStore> store_;
  std::shared_ptr<BlockStore> inner_;
  Rng& rng_;
  std::deque<iovec> parts_;
  std::vector<std::unique_ptr<Late>> late_;
  std::vector<std::unique_ptr<Late>> sent_;
};

}  // namespace

const char* mutant_name(Mutant mutant) {
  return kNames[static_cast<size_t>(mutant)];
}

std::shared_ptr<BlockStore> wrap(Mutant mutant, std::shared_ptr<BlockStore> store, std::shared_ptr<BlockStore> inner,
                                 Rng& rng) {
  if (mutant < Mutant::early_fua || mutant > Mutant::discards_too_much) return store;
  return std::make_shared<MutantStore>(mutant, std::move(store), std::move(inner), rng);
}

}  // namespace zvolt::crash
