# dt_library(NAME SOURCES pattern... [EXCLUDE regex] [GENERATED file...] LINK library...)
#
# A static library of the files of this folder that match. A folder without sources yet is an interface library: who links it need not know.
function(dt_library name)
    cmake_parse_arguments(arg "" "EXCLUDE" "SOURCES;GENERATED;LINK" ${ARGN})
    file(GLOB sources CONFIGURE_DEPENDS ${arg_SOURCES})
    if(arg_EXCLUDE)
        list(FILTER sources EXCLUDE REGEX ${arg_EXCLUDE})
    endif()
    list(APPEND sources ${arg_GENERATED})
    if(sources)
        add_library(${name} STATIC ${sources})
        set_target_properties(${name} PROPERTIES POSITION_INDEPENDENT_CODE ON C_VISIBILITY_PRESET hidden) # they go into shared libraries too
        target_include_directories(${name} PUBLIC ${CMAKE_SOURCE_DIR})
        target_link_libraries(${name} PUBLIC ${arg_LINK})
    else()
        add_library(${name} INTERFACE)
        target_include_directories(${name} INTERFACE ${CMAKE_SOURCE_DIR})
        target_link_libraries(${name} INTERFACE ${arg_LINK})
    endif()
endfunction()

# dt_executable(NAME SOURCES pattern... LINK library...): nothing where nothing matches.
function(dt_executable name)
    cmake_parse_arguments(arg "" "" "SOURCES;LINK" ${ARGN})
    file(GLOB sources CONFIGURE_DEPENDS ${arg_SOURCES})
    if(sources)
        add_executable(${name} ${sources})
        target_link_libraries(${name} PRIVATE ${arg_LINK})
    endif()
endfunction()

# dt_public_library(NAME FROM library ARCHIVES library...): libNAME.so and libNAME.a with the functions of `library` that begin with NAME_, and nothing else that can be
# seen: the shared one has a list of what it exports, the static one is one object, with what it needs of the archives, whose other symbols are local.
# Headers: include/NAME.h.
file(STRINGS ${CMAKE_SOURCE_DIR}/abi/version.h version REGEX "define DT_VERSION")
string(REGEX MATCH "[0-9.]+" DT_VERSION ${version})
function(dt_public_library name)
    cmake_parse_arguments(arg "" "FROM" "ARCHIVES" ${ARGN})
    add_library(${name}_shared SHARED $<TARGET_OBJECTS:${arg_FROM}>)
    set_target_properties(${name}_shared PROPERTIES OUTPUT_NAME ${name} VERSION ${DT_VERSION} SOVERSION 0 LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR})
    target_link_libraries(${name}_shared PRIVATE ${arg_FROM})
    set(exports ${CMAKE_CURRENT_BINARY_DIR}/${name}.map)
    file(WRITE ${exports} "{ global: ${name}_*; local: *; };\n")
    target_link_options(${name}_shared PRIVATE -Wl,--version-script=${exports} -Wl,-z,defs)

    set(archive ${CMAKE_BINARY_DIR}/lib${name}.a)
    set(object ${CMAKE_CURRENT_BINARY_DIR}/${name}.o)
    list(TRANSFORM arg_ARCHIVES REPLACE "(.+)" "$<TARGET_FILE:\\1>" OUTPUT_VARIABLE archives)
    add_custom_command(
        OUTPUT ${archive}
        COMMAND ${CMAKE_LINKER} -r -o ${object} --whole-archive $<TARGET_FILE:${arg_FROM}> --no-whole-archive ${archives}
        COMMAND ${CMAKE_OBJCOPY} --wildcard --keep-global-symbol=${name}_* ${object}
        COMMAND ${CMAKE_COMMAND} -E rm -f ${archive}
        COMMAND ${CMAKE_AR} rcs ${archive} ${object}
        DEPENDS ${arg_FROM} ${arg_ARCHIVES}
        VERBATIM)
    add_custom_target(${name}_static ALL DEPENDS ${archive})
endfunction()
