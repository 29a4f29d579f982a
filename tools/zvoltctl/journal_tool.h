// `zvoltctl journal inspect|verify|replay|discard|format PATH`: a journal without its daemon, on a device or file. The
// log is locked against a daemon that uses it. Blocking; each prints and returns the exit status.
#pragma once

#include <string>

namespace zvolt::control {

// Superblock, commit groups per volume, where the ring ends and why. `records`: each of them too. Changes nothing.
int journal_inspect(const std::string& path, bool records, bool json);
// 0: every record that was ever durable is good. Changes nothing.
int journal_verify(const std::string& path, bool json);
// Writes what the journal holds of one volume to its store.
int journal_replay(const std::string& path, const std::string& lun, const std::string& store);
// Gives up what the journal holds of one volume.
int journal_discard(const std::string& path, const std::string& lun);
int journal_format(const std::string& path, bool force);

}  // namespace zvolt::control
