// See followed_store.h.
#include "backing/followed_store.h"

#include <cerrno>

namespace zvolt::backing {

const char* presence_name(Presence presence) {
  static constexpr const char* kNames[] = {"present", "late", "gone", "refused", "offline"};
  return kNames[static_cast<size_t>(presence)];
}

Result<std::shared_ptr<FollowedStore>> follow_device(FollowOptions options) {
  return Error{ENOTSUP, options.name + ": devices cannot be followed yet"};
}

}  // namespace zvolt::backing
