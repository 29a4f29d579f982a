// See libiscsi_session.h.
#include "tests/support/libiscsi_session.h"

#include <iscsi/iscsi.h>
#include <iscsi/scsi-lowlevel.h>

#include <memory>
#include <utility>

namespace zvolt::test {

namespace {

constexpr int kCommandLimitSeconds = 60;

struct UrlDeleter {
  void operator()(iscsi_url* url) const { iscsi_destroy_url(url); }
};

struct TaskDeleter {
  void operator()(scsi_task* task) const { scsi_free_scsi_task(task); }
};

std::string last_error(iscsi_context* context) {
  const char* text = iscsi_get_error(context);
  return text == nullptr ? "" : text;
}

ScsiResult to_result(iscsi_context* context, const scsi_task* task) {
  ScsiResult result;
  if (task == nullptr) {
    result.transport_error = last_error(context);
    return result;
  }
  // libiscsi uses values above 0xff for its own failures: cancelled, timed out, error.
  result.status = task->status <= 0xff ? task->status : -1;
  if (result.status < 0) result.transport_error = last_error(context);
  if (task->status == SCSI_STATUS_CHECK_CONDITION)
    result.sense = sense_text(static_cast<uint8_t>(task->sense.key), static_cast<uint8_t>(task->sense.ascq >> 8),
                              static_cast<uint8_t>(task->sense.ascq));
  result.residual = task->residual;
  result.overflow = task->residual_status == SCSI_RESIDUAL_OVERFLOW;
  result.underflow = task->residual_status == SCSI_RESIDUAL_UNDERFLOW;
  if (task->datain.data != nullptr && task->datain.size > 0)
    result.data.assign(task->datain.data, task->datain.data + task->datain.size);
  return result;
}

}  // namespace

LibiscsiSession::~LibiscsiSession() {
  if (context_ == nullptr) return;
  if (iscsi_is_logged_in(context_) != 0) iscsi_logout_sync(context_);
  iscsi_destroy_context(context_);
}

LibiscsiSession::LibiscsiSession(LibiscsiSession&& other) noexcept {
  *this = std::move(other);
}

LibiscsiSession& LibiscsiSession::operator=(LibiscsiSession&& other) noexcept {
  std::swap(context_, other.context_);
  std::swap(lun_, other.lun_);
  std::swap(block_size_, other.block_size_);
  return *this;
}

Result<LibiscsiSession> LibiscsiSession::open(const std::string& url_text, uint32_t isid,
                                              const std::string& initiator) {
  LibiscsiSession session;
  session.context_ = iscsi_create_context(initiator.c_str());
  if (session.context_ == nullptr) return Error{0, "iscsi_create_context failed"};
  const std::unique_ptr<iscsi_url, UrlDeleter> url(iscsi_parse_full_url(session.context_, url_text.c_str()));
  if (!url) return Error{0, url_text + ": " + last_error(session.context_)};
  iscsi_set_session_type(session.context_, ISCSI_SESSION_NORMAL);
  iscsi_set_noautoreconnect(session.context_, 1);
  iscsi_set_timeout(session.context_, kCommandLimitSeconds);
  iscsi_set_isid_random(session.context_, isid, 0);
  iscsi_set_targetname(session.context_, url->target);
  // Not iscsi_full_connect_sync: it probes the LUN with TEST UNIT READY and would eat a unit attention.
  session.lun_ = url->lun;
  if (iscsi_connect_sync(session.context_, url->portal) != 0 || iscsi_login_sync(session.context_) != 0)
    return Error{0, url_text + ": " + last_error(session.context_)};
  return session;
}

ScsiResult LibiscsiSession::run(int lun, const Cdb& cdb, bool out, Bytes* data, uint32_t bytes) {
  if (context_ == nullptr) {
    ScsiResult result;
    result.transport_error = "not logged in";
    return result;
  }
  const int direction = bytes == 0 ? SCSI_XFER_NONE : (out ? SCSI_XFER_WRITE : SCSI_XFER_READ);
  Cdb copy = cdb;
  const std::unique_ptr<scsi_task, TaskDeleter> task(
      scsi_create_task(static_cast<int>(copy.size()), copy.data(), direction, static_cast<int>(bytes)));
  iscsi_data payload{};
  if (out && data != nullptr) payload = {data->size(), data->data()};
  scsi_task* done = iscsi_scsi_command_sync(context_, lun, task.get(), out && bytes > 0 ? &payload : nullptr);
  return to_result(context_, done);
}

ScsiResult LibiscsiSession::command(const Cdb& cdb, uint32_t read_bytes) {
  return run(lun_, cdb, false, nullptr, read_bytes);
}

ScsiResult LibiscsiSession::command_lun(int lun, const Cdb& cdb, uint32_t read_bytes) {
  return run(lun, cdb, false, nullptr, read_bytes);
}

ScsiResult LibiscsiSession::command_out(const Cdb& cdb, const Bytes& data) {
  Bytes copy = data;
  return run(lun_, cdb, true, &copy, static_cast<uint32_t>(copy.size()));
}

ScsiResult LibiscsiSession::read(uint64_t offset, uint32_t bytes) {
  return command(read16(offset / block_size_, bytes / block_size_), bytes);
}

ScsiResult LibiscsiSession::write(uint64_t offset, const Bytes& data, uint8_t flags) {
  return command_out(write16(offset / block_size_, static_cast<uint32_t>(data.size() / block_size_), flags), data);
}

bool LibiscsiSession::logout() {
  return context_ != nullptr && iscsi_logout_sync(context_) == 0;
}

Result<std::vector<DiscoveredTarget>> discover(const std::string& portal) {
  iscsi_context* context = iscsi_create_context("iqn.2026-11.org.example:discovery");
  iscsi_set_session_type(context, ISCSI_SESSION_DISCOVERY);
  iscsi_set_noautoreconnect(context, 1);
  iscsi_set_timeout(context, kCommandLimitSeconds);
  std::vector<DiscoveredTarget> targets;
  std::string failure;
  if (iscsi_connect_sync(context, portal.c_str()) != 0 || iscsi_login_sync(context) != 0) {
    failure = "login: " + last_error(context);
  } else if (iscsi_discovery_address* first = iscsi_discovery_sync(context); first == nullptr) {
    failure = "SendTargets: " + last_error(context);
  } else {
    for (const auto* address = first; address != nullptr; address = address->next) {
      DiscoveredTarget target{address->target_name, {}};
      for (const auto* at = address->portals; at != nullptr; at = at->next) target.portals.emplace_back(at->portal);
      targets.push_back(std::move(target));
    }
    iscsi_free_discovery_data(context, first);
    iscsi_logout_sync(context);
  }
  iscsi_destroy_context(context);
  if (!failure.empty()) return Error{0, portal + ": " + failure};
  return targets;
}

}  // namespace zvolt::test
