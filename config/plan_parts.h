// Parts of make_plan(): which volumes of two configurations belong together, and the steps of volumes, targets and
// portals. Called by plan.cc. Pure; values, no threading rule.
#pragma once

#include <deque>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "config/plan.h"

namespace zvolt::config {

// A volume before and after; one of them may be missing.
struct VolumePair {
  const Volume* old = nullptr;
  const Volume* now = nullptr;
  bool other_store = false;  // one name, but another store: another disk for the hosts
};

class PlanInput {
 public:
  PlanInput(const Config& running_config, const Config& wanted_config, const Facts& all_facts);

  const Config& running;
  const Config& wanted;
  const Facts& facts;
  bool start() const { return start_; }  // nothing runs yet

  const std::deque<VolumePair>& pairs() const { return pairs_; }
  // The pair of a volume that is a LUN in `running`, in `wanted`; nullptr when there is none.
  const VolumePair* of_old(const std::string& name) const { return find(by_old_, name); }
  const VolumePair* of_now(const std::string& name) const { return find(by_now_, name); }
  // Store that a running volume has open.
  std::string open_store(const Volume& old) const;

  std::vector<Session> sessions_of_target(const std::string& target) const;
  // Of all targets that map a running volume.
  std::vector<Session> sessions_of_volume(const std::string& name) const;

 private:
  using Index = std::map<std::string, VolumePair*>;
  static const VolumePair* find(const Index& index, const std::string& name);
  void match();
  void add(const Volume* old, const Volume* now, bool other_store);

  bool start_ = false;
  std::deque<VolumePair> pairs_;  // stable addresses
  Index by_old_, by_now_;
  std::map<std::string, std::set<std::string>> targets_of_;  // running volume -> targets
};

// "iqn...:vm LUN 3"
std::string lun_subject(const std::string& target, uint16_t lun);

void volume_steps(const PlanInput& in, std::vector<Step>& steps);
void target_steps(const PlanInput& in, std::vector<Step>& steps);   // targets, LUN maps
void journal_steps(const PlanInput& in, std::vector<Step>& steps);  // log devices
// What becomes of a kept volume whose `journal` was edited.
void journal_of_kept(const PlanInput& in, const Volume& old, const Volume& now, std::vector<Step>& steps);
void daemon_steps(const PlanInput& in, std::vector<Step>& steps);  // portals, what only a start reads

}  // namespace zvolt::config
