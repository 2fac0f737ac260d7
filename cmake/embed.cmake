# cmake -DFOLDER=… -DNAMES=a,b -DOUTPUT=… -P embed.cmake: writes the texts FOLDER/a.dt, … as the C array of frontends/dsl/library.h.
string(REPLACE "," ";" names "${NAMES}")
set(rows "")
set(n_rows 0)
foreach(name IN LISTS names)
    file(READ "${FOLDER}/${name}.dt" text)
    string(REPLACE "\\" "\\\\" text "${text}")
    string(REPLACE "\"" "\\\"" text "${text}")
    string(REPLACE "\n" "\\n\"\n     \"" text "${text}")
    string(APPEND rows "    {\"${name}\",\n     \"${text}\"},\n")
    math(EXPR n_rows "${n_rows} + 1")
endforeach()
file(WRITE "${OUTPUT}" "/* Generated from ${NAMES} by cmake/embed.cmake. */
#include \"frontends/dsl/library.h\"

const dt_library_module dt_library_modules[] = {
${rows}    {NULL, NULL},
};
const size_t dt_n_library_modules = ${n_rows};
")
