// See mailbox.h. Order matters twice: post() pushes before it signals, collect() forgets the signal before it takes; so
// a request is either taken, or its poster sees no signal standing and makes one.
#include "backing/mailbox.h"

#include <sys/eventfd.h>
#include <unistd.h>

namespace zvolt::backing {

Mailbox::Mailbox() : event_fd_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}

Mailbox::~Mailbox() {
  // The owner may have taken a request, and be done with everything, while its poster is still about to signal.
  while (posters_.load(std::memory_order_acquire) != 0) std::this_thread::yield();
  if (event_fd_ >= 0) close(event_fd_);
}

void Mailbox::post(IoRequest& request) {
  posters_.fetch_add(1, std::memory_order_relaxed);
  IoRequest* head = posted_.load(std::memory_order_relaxed);
  do {
    request.next = head;
  } while (!posted_.compare_exchange_weak(head, &request, std::memory_order_seq_cst, std::memory_order_relaxed));
  signal();
  posters_.fetch_sub(1, std::memory_order_release);
}

void Mailbox::signal() {
  if (signalled_.exchange(true, std::memory_order_seq_cst)) return;
  const uint64_t one = 1;
  // Fails only when the counter is full, and then it is readable all the same.
  [[maybe_unused]] const ssize_t written = write(event_fd_, &one, sizeof one);
}

uint64_t Mailbox::clear_event() const {
  uint64_t count;
  return read(event_fd_, &count, sizeof count) == sizeof count ? count : 0;
}

void Mailbox::collect(RequestList& into) {
  signalled_.store(false, std::memory_order_seq_cst);
  IoRequest* newest = posted_.exchange(nullptr, std::memory_order_seq_cst);
  IoRequest* oldest = nullptr;
  while (newest != nullptr) {
    IoRequest* next = newest->next;
    newest->next = oldest;
    oldest = newest;
    newest = next;
  }
  while (oldest != nullptr) {
    IoRequest* next = oldest->next;
    into.push(*oldest);
    oldest = next;
  }
}

}  // namespace zvolt::backing
