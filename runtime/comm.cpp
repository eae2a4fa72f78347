#include "runtime/comm.h"

#include <cstring>
#include <numeric>

#include "ir/base/diag.h"
#include "ir/base/text.h"

namespace tessera {

void Group::model(const ModelledLink&) {
  throw CompileError("--link", "links are modelled between local ranks only",
                     {"leave --link out, or run with --ranks local"});
}

Group& World::everyone() {
  if (!everyone_) {
    std::vector<int> all(static_cast<std::size_t>(size_));
    std::iota(all.begin(), all.end(), 0);
    everyone_ = group(all, 0);
  }
  return *everyone_;
}

void World::barrier(const std::string& what) {
  const std::vector<ConstBytes> send(static_cast<std::size_t>(size_));
  const std::vector<Bytes> receive(static_cast<std::size_t>(size_));
  everyone().exchange(send, receive, what);
}

void World::check_same(const std::string& text, const std::string& what) {
  constexpr std::size_t kWidth = 128;
  std::string own = text.substr(0, kWidth);
  own.resize(kWidth, ' ');
  std::vector<std::string> others(static_cast<std::size_t>(size_), std::string(kWidth, ' '));
  std::vector<ConstBytes> send(others.size(),
                               {reinterpret_cast<const std::byte*>(own.data()), kWidth});
  std::vector<Bytes> receive;
  receive.reserve(others.size());
  for (std::string& other : others)
    receive.push_back({reinterpret_cast<std::byte*>(other.data()), kWidth});
  everyone().exchange(send, receive, what);
  for (std::size_t r = 0; r < others.size(); ++r) {
    if (others[r] != own)
      throw WorldError(str(what, " differs between rank ", rank_, " and rank ", r));
  }
}

}  // namespace tessera
