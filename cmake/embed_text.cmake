# cmake -DFILE=… -DNAME=… -DHEADER=… -DOUTPUT=… -P embed_text.cmake: writes FILE's text as the C string NAME, which HEADER declares.
file(READ "${FILE}" text)
string(REPLACE "\\" "\\\\" text "${text}")
string(REPLACE "\"" "\\\"" text "${text}")
string(REPLACE "\n" "\\n\"\n    \"" text "${text}")
get_filename_component(file_name "${FILE}" NAME)
file(WRITE "${OUTPUT}" "/* Generated from ${file_name} by cmake/embed_text.cmake. */
#include \"${HEADER}\"

const char ${NAME}[] =
    \"${text}\";
")
