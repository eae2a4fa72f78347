// What a schedule takes: a discrete-event replay of tasks on streams.
#pragma once
#include <span>
#include <vector>

namespace tessera {

struct StreamTask {
  int stream = 0;
  double seconds = 0;      // when nothing shares its link
  int link = -1;           // the link class that it keeps busy; -1: none
  std::vector<int> after;  // earlier tasks, of any stream, that must have ended
};

struct Span {
  double start = 0, end = 0;  // seconds
};

// Every stream runs its tasks in their order. Tasks that keep one link busy at once share it
// evenly, so a link never does more than it could do alone: whatever overlaps, the whole takes at
// most the sum of all `seconds`.
std::vector<Span> replay_streams(std::span<const StreamTask> tasks);

}  // namespace tessera
