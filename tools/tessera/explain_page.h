// The page of `tessera explain --html`, compiled in by cmake/TesseraPage.cmake.
#pragma once
#include <string_view>

namespace tessera {

std::string_view explain_page();

}  // namespace tessera
