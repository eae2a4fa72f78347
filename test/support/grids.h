// The grids that the model tests run on: a spread by default, all 63 with up to 8 devices plus
// 2x2x2x2 when TESSERA_ALL_GRIDS is set.
#pragma once
#include <cstdlib>
#include <string>
#include <vector>

#include "ir/base/text.h"

namespace tessera::test {

inline std::vector<std::string> model_grids() {
  if (std::getenv("TESSERA_ALL_GRIDS") == nullptr) {
    return {"data=1,z=1,y=1,x=1", "data=2,z=1,y=1,x=1", "data=1,z=2,y=1,x=1", "data=1,z=1,y=2,x=1",
            "data=1,z=1,y=1,x=2", "data=1,z=1,y=3,x=1", "data=1,z=1,y=1,x=3", "data=1,z=2,y=3,x=1",
            "data=1,z=1,y=2,x=4", "data=2,z=2,y=2,x=1", "data=1,z=8,y=1,x=1", "data=5,z=1,y=1,x=1",
            "data=1,z=1,y=8,x=1", "data=2,z=2,y=2,x=2"};
  }
  std::vector<std::string> grids;
  for (int d = 1; d <= 8; ++d) {
    for (int z = 1; d * z <= 8; ++z) {
      for (int y = 1; d * z * y <= 8; ++y) {
        for (int x = 1; d * z * y * x <= 8; ++x)
          grids.push_back(str("data=", d, ",z=", z, ",y=", y, ",x=", x));
      }
    }
  }
  grids.push_back("data=2,z=2,y=2,x=2");
  return grids;
}

}  // namespace tessera::test
