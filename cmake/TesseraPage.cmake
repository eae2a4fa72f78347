# tools/tessera/explain.html, compiled in as one array of bytes (compilers limit the length of literals).
set(page "${CMAKE_SOURCE_DIR}/tools/tessera/explain.html")
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${page}")
file(READ "${page}" bytes HEX)
string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${bytes}")
file(WRITE "${CMAKE_BINARY_DIR}/explain_page.cpp.new"
     "// Generated from tools/tessera/explain.html.\n#include \"tools/tessera/explain_page.h\"\nnamespace tessera {\n"
     "std::string_view explain_page() {\n  static constexpr unsigned char kPage[] = {${bytes}};\n"
     "  return {reinterpret_cast<const char*>(kPage), sizeof kPage};\n}\n}  // namespace tessera\n")
configure_file("${CMAKE_BINARY_DIR}/explain_page.cpp.new" "${CMAKE_BINARY_DIR}/explain_page.cpp" COPYONLY)
target_sources(tessera PRIVATE "${CMAKE_BINARY_DIR}/explain_page.cpp")
