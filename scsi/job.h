// StepJob: a command that takes many store requests, one after the other: UNMAP, WRITE SAME, VERIFY without data. It
// stops early when the task is aborted or a step fails, and gives the shard back to others every few megabytes. Runs on
// the task's shard; lives in Task::job.
#pragma once

#include <memory>

#include "scsi/task.h"

namespace zvolt::scsi {

class StepJob : public Job {
 public:
  enum class Next : uint8_t { submit, done };

  // Puts the job into the task and begins it. The task is settled now or later.
  static void begin(Task& task, std::unique_ptr<StepJob> job);

 protected:
  // Fills task.io (kind, offset, length, iov) with the next request, or says that nothing is left.
  virtual Next next(Task& task) = 0;
  // The request was successful. May note an error of its own (a miscompare).
  virtual void completed(Task& task) = 0;
  // Everything was done without an error: settle the task.
  virtual void conclude(Task& task) = 0;
  // A step failed, task.error says how: settle the task.
  virtual void failed(Task& task) = 0;

 private:
  static StepJob& of(Task& task) { return static_cast<StepJob&>(*task.job); }
  static void run(Task& task);
  static void take_result(Task& task);
};

// Pieces in which jobs read and write, in bytes: the size of the transport's own pieces.
inline constexpr uint64_t kJobPiece = uint64_t{256} << 10;

}  // namespace zvolt::scsi
