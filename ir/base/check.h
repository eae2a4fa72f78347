// TESSERA_CHECK(condition, parts...): a broken invariant is our bug. Throws InternalError, which
// tools report with exit code 4 and the dump's path, so that even our own bugs leave no
// half-written output.
#pragma once
#include <stdexcept>
#include <string>

#include "ir/base/text.h"

namespace tessera {

class InternalError : public std::logic_error {
 public:
  using std::logic_error::logic_error;
};

[[noreturn]] inline void internal_error(const char* file, int line, const std::string& what) {
  throw InternalError(str("internal error at ", file, ":", line, ": ", what));
}

}  // namespace tessera

#define TESSERA_CHECK(condition, ...)                                                           \
  do {                                                                                          \
    if (!(condition)) {                                                                         \
      ::tessera::internal_error(__FILE__, __LINE__,                                             \
                                ::tessera::str(#condition, ": ", ::tessera::str(__VA_ARGS__))); \
    }                                                                                           \
  } while (false)
