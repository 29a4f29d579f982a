// See job.h.
#include "scsi/job.h"

#include <utility>

#include "backing/io_engine.h"
#include "scsi/logical_unit.h"
#include "scsi/media_error.h"
#include "scsi/unit_call.h"

namespace zvolt::scsi {

namespace {
// Bytes that a store which answers at once may be asked for in one turn of the shard.
constexpr uint64_t kTurn = uint64_t{4} << 20;
}  // namespace

void StepJob::begin(Task& task, std::unique_ptr<StepJob> job) {
  task.job = std::move(job);
  run(task);
}

void StepJob::take_result(Task& task) {
  if (task.io.error == 0) return of(task).completed(task);
  note_error(task, task.io.error, task.io.kind == backing::IoKind::read ? task.io.error_offset : task.io.offset);
}

void StepJob::run(Task& task) {
  StepJob& self = of(task);
  backing::BlockStore& store = task.lu->store();
  for (uint64_t moved = 0; moved < kTurn; moved += task.io.length) {
    if (task.aborted) return fail_status(task, Status::task_aborted);
    if (task.error != 0) return self.failed(task);
    task.io = {};
    if (self.next(task) == Next::done) return self.conclude(task);
    task.io.error_offset = task.io.offset;
    task.io.context = &task;
    task.io.done = [](backing::IoRequest& io) noexcept {
      Task& owner = *static_cast<Task*>(io.context);
      take_result(owner);
      run(owner);
    };
    if (store.submit(task.io, *task.engine) == backing::Submitted::pending) return;
    take_result(task);
  }
  task.engine->post([](void* again) { run(*static_cast<Task*>(again)); }, &task);
}

}  // namespace zvolt::scsi
