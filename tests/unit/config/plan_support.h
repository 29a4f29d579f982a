// Verbs for tests of the plan: two configurations as YAML and the facts between them; steps come back as one line each.
#pragma once

#include "config/plan.h"
#include "config/plan_text.h"
#include "tests/unit/config/support.h"

namespace zvolt::config::test {

constexpr uint64_t kGiB = uint64_t{1} << 30;

class PlanTest : public ::testing::Test {
 protected:
  using Lines = std::vector<std::string>;

  // Volumes (each "a: { ... }") that are LUNs 0, 1, ... of one target with sessions of esx1 and esx2.
  static std::string volumes(const std::vector<std::string>& entries, const std::string& more = "") {
    std::string luns, out = "listen: [127.0.0.1]\n" + more + "volumes:\n";
    for (size_t i = 0; i < entries.size(); ++i) {
      out += "  " + entries[i] + "\n";
      luns += (i == 0 ? "" : ", ") + std::string("{ lun: ") + std::to_string(i) +
              ", volume: " + entries[i].substr(0, entries[i].find(':')) + " }";
    }
    return out + "targets: [{ name: \"iqn.2026-11.o:t\", luns: [" + luns + "] }]\n";
  }

  // A target named iqn.2026-11.o:t with these LUNs, over zvols t/a, t/b and t/c.
  static std::string luns(const std::string& list, const std::string& keys = "") {
    return "listen: [127.0.0.1]\nvolumes: { a: { zvol: t/a }, b: { zvol: t/b }, c: { zvol: t/c } }\n"
           "targets: [{ name: \"iqn.2026-11.o:t\", " +
           keys + "luns: [" + list + "] }]\n";
  }

  void zvol(const std::string& name, uint64_t size, uint64_t volblocksize = 16384) {
    facts_.stores["/dev/zvol/" + name] = {.exists = true, .size = size, .volblocksize = volblocksize};
  }
  void missing(const std::string& key) { facts_.stores[key] = {}; }
  void logged_in(const std::string& initiator, const std::string& target = "iqn.2026-11.o:t", uint16_t group = 0,
                 const std::string& portal = "") {
    const auto tsih = static_cast<uint16_t>(facts_.sessions.size() + 1);
    facts_.sessions.push_back({initiator, target, tsih, "10.0.0.5:4000", group, portal});
  }

  Plan plan(const std::string& running, const std::string& wanted) {
    return make_plan(running.empty() ? Config() : good(running), good(wanted), facts_);
  }
  // "kind subject: text [what] (initiators that see it)"
  Lines steps(const std::string& running, const std::string& wanted) {
    Lines out;
    for (const Step& step : plan(running, wanted).steps) {
      std::string line = std::string(kind_name(step.kind)) + " " + step.subject + ": " + step.text;
      for (const Session& session : step.sessions) line += " @" + session.initiator;
      if (step.ends_sessions) line += " ENDS";
      if (step.destructive) line += " LOSES";
      out.push_back(line);
    }
    return out;
  }

  Facts facts_;
};

}  // namespace zvolt::config::test
