// See fake_pool.h. The places come from CMake.
#include "tests/unit/backing/fake_pool.h"

namespace zvolt::test {

std::string FakePool::command(const std::string& name) {
  return std::string(ZVOLT_FAKE_ZFS) + "/" + name;
}

std::string recorded(const std::string& name) {
  std::ifstream file(std::string(ZVOLT_RECORDED) + "/" + name);
  EXPECT_TRUE(file.good()) << name;
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

}  // namespace zvolt::test
