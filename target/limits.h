// Every limit of the iSCSI layer, with unit and reason. Nothing the network can make grow is without one.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>

namespace zvolt::iscsi::limits {

// Receive: one shard-wide read-ahead buffer. Large enough for 15 PDUs of 4 KiB in one recvmsg, small enough for L2.
inline constexpr size_t kReadAhead = size_t{64} << 10;
// While large data segments are expected, less is read ahead, so that payload goes straight to its buffer (bytes).
inline constexpr size_t kReadAheadLarge = size_t{2} << 10;
// A data segment of this size or more counts as large (bytes): below, a copy is cheaper than a syscall.
inline constexpr uint32_t kLargeSegment = 16384;
// Bytes taken from one socket in one burst, so that one busy connection does not starve its shard.
inline constexpr size_t kReceiveBudget = size_t{1} << 20;

// Transmit: bytes and PDUs that may wait for a slow reader before we stop reading commands from it and stop starting
// reads.
inline constexpr size_t kTransmitQueueBytes = size_t{4} << 20;
inline constexpr size_t kTransmitQueuePdus = 1024;
// Entries of one sendmsg (of IOV_MAX = 1024) and bytes, so that the socket buffer decides, not we.
inline constexpr size_t kSendIovs = 256;

// Commands of one session: the largest window that is granted, and the smallest worth a login.
inline constexpr uint32_t kWindowMax = 128;
inline constexpr uint32_t kWindowMin = 8;
// Immediate commands in progress beyond the window (NOP and task management are answered at once and do not count).
inline constexpr uint32_t kImmediateCommands = 4;
// Task management functions of one session that wait for their tasks to be gone.
inline constexpr size_t kPendingTaskFunctions = 64;
// Command objects of one session, those whose response waits for the socket included.
inline constexpr uint32_t kSessionCommands = 2 * kWindowMax + kImmediateCommands;

// A session may hold this part of its shard's general memory (1/n), at least the minimum (bytes): a host that does not
// read, or does not send what it was asked for, must not take it all.
inline constexpr size_t kSessionShare = 8;
inline constexpr size_t kSessionShareMin = size_t{4} << 20;
// A new session is granted a window for this part of the memory that is not promised yet (1/n), within the limits
// above.
inline constexpr size_t kWindowShare = 32;

// Pieces (buffers of up to 256 KiB) that one command may hold: 2 MiB in flight hide the store's latency.
inline constexpr size_t kPieces = 8;
// Pieces (of up to 256 KiB) that one shard has in one unit's store: enough for any device to be busy, 32 MiB at most
// when it stalls.
inline constexpr uint32_t kUnitInFlight = 128;
// Commands that a rate limit delays: those due within the slack go on together (a timer for each would cost more than
// it gives), and a limit that was changed is noticed after this long at most.
inline constexpr std::chrono::microseconds kLimitSlack{100};
inline constexpr std::chrono::milliseconds kLimitRecheck{50};
// One R2T asks for at most this much (bytes), so that a burst never needs more than half of the pieces.
inline constexpr uint32_t kSolicitedBurst = uint32_t{1} << 20;

// Completions taken from the engine at once, and rounds per burst before the sockets get their turn again.
inline constexpr size_t kReapBatch = 64;
inline constexpr int kReapRounds = 8;

// A connection that has not logged in by then is dropped.
inline constexpr std::chrono::seconds kLoginTimeout{15};
// After our last PDU we wait this long for the peer's FIN, so that a reset does not take the PDU from it.
inline constexpr std::chrono::seconds kLingerTimeout{2};
// An initiator that takes no answer, or sends none of the data it was asked for, for so long is gone; looked at every
// so often.
inline constexpr std::chrono::seconds kStallTimeout{30};
inline constexpr std::chrono::seconds kStallCheck{5};
// At the daemon's end a peer that has not moved for so long is not waited for.
inline constexpr std::chrono::seconds kDrainPatience{1};
// A peer that lost power says nothing: TCP finds out after idle + count * interval (seconds).
inline constexpr int kKeepAliveIdle = 30, kKeepAliveInterval = 10, kKeepAliveCount = 3;
// Connections in all, logged in or not.
inline constexpr size_t kConnections = 4096;
// Of those, not yet logged in.
inline constexpr size_t kLoginConnections = 512;

}  // namespace zvolt::iscsi::limits
