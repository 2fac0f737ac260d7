# find_package(dt): the targets dt::dtc and dt::dtrt, the shared libraries with their headers. All is relative to where this file lies.
get_filename_component(dt_prefix "${CMAKE_CURRENT_LIST_DIR}/../../.." ABSOLUTE)
foreach(name dtc dtrt)
    if(NOT TARGET dt::${name})
        add_library(dt::${name} SHARED IMPORTED)
        set_target_properties(dt::${name} PROPERTIES IMPORTED_LOCATION "${dt_prefix}/lib/lib${name}.so" INTERFACE_INCLUDE_DIRECTORIES "${dt_prefix}/include")
    endif()
endforeach()
unset(dt_prefix)
