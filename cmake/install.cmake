# cmake --install BUILD --prefix PREFIX: what a user of the project needs, in any folder, which may be moved as a whole: programs and libraries find
# what lies in ../lib. debian/rules says other folders for libraries and plugins, and makes packages of what is installed.
set(CMAKE_INSTALL_LIBDIR lib CACHE STRING "Where libraries go, below the prefix")
set(DT_INSTALL_PLUGINS ${CMAKE_INSTALL_LIBDIR} CACHE STRING "Where plugins for MPI go, below the prefix: the libraries' folder, or lib/dt")

# Man pages and completions say what the programs' own --help says.
find_program(DT_HELP2MAN help2man)
set(texts ${CMAKE_BINARY_DIR}/installed)
set(made "")
foreach(program dtc dtrun)
    set(stamp ${texts}/${program}.stamp)
    set(make_man_pages COMMAND ${CMAKE_SOURCE_DIR}/cmake/man_pages.sh $<TARGET_FILE:${program}> ${DT_VERSION} ${texts}/man/${program})
    if(NOT DT_HELP2MAN)
        set(make_man_pages "")
    endif()
    add_custom_command(
        OUTPUT ${stamp}
        COMMAND ${CMAKE_COMMAND} -E make_directory ${texts}/man/${program} ${texts}/completions
        ${make_man_pages}
        COMMAND ${CMAKE_SOURCE_DIR}/cmake/completions.sh $<TARGET_FILE:${program}> ${texts}/completions
        COMMAND ${CMAKE_COMMAND} -E touch ${stamp}
        DEPENDS ${program} ${CMAKE_SOURCE_DIR}/cmake/man_pages.sh ${CMAKE_SOURCE_DIR}/cmake/completions.sh
        VERBATIM)
    list(APPEND made ${stamp})
endforeach()
add_custom_target(installed_texts ALL DEPENDS ${made})

foreach(program dtc dtrun)
    install(TARGETS ${program} RUNTIME DESTINATION bin)
    install(DIRECTORY ${texts}/man/${program}/ DESTINATION share/man/man1 OPTIONAL)
    install(FILES ${texts}/completions/${program}.bash RENAME ${program} DESTINATION share/bash-completion/completions)
    install(FILES ${texts}/completions/_${program} DESTINATION share/zsh/site-functions)
    install(FILES ${texts}/completions/${program}.fish DESTINATION share/fish/vendor_completions.d)
endforeach()

# What is to be installed, and no tests.
add_custom_target(to_install DEPENDS installed_texts dtc_shared dtc_static dtrt_shared dtrt_static)
foreach(family openmpi mpich abi)
    if(TARGET dt_mpi_${family})
        install(TARGETS dt_mpi_${family} LIBRARY DESTINATION ${DT_INSTALL_PLUGINS})
        add_dependencies(to_install dt_mpi_${family})
    endif()
endforeach()

# dt_install_library(NAME DESCRIPTION PRIVATE): lib/libNAME.so.0 and what programs are built with. PRIVATE: what a program that links libNAME.a
# links besides.
file(RELATIVE_PATH up /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
function(dt_install_library name description private)
    install(TARGETS ${name}_shared LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
    install(FILES ${CMAKE_SOURCE_DIR}/include/${name}.h DESTINATION include)
    install(FILES ${CMAKE_BINARY_DIR}/lib${name}.a DESTINATION ${CMAKE_INSTALL_LIBDIR})
    configure_file(${CMAKE_SOURCE_DIR}/cmake/library.pc.in ${texts}/${name}.pc @ONLY)
    install(FILES ${texts}/${name}.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
endfunction()
dt_install_library(dtc "The compiler of .dt programs" "-lLLVM-${LLVM_VERSION_MAJOR} -lminizip -lcjson -lprotobuf-c -lnettle -lz -lpthread -ldl -lm")
dt_install_library(dtrt "Training and inference with compiled .dt programs"
    "-lcjson -lminizip -lpng -ljpeg -lprotobuf-c -lutf8proc -lz -lnettle -lpthread -ldl -lm")

include(CMakePackageConfigHelpers)
write_basic_package_version_file(${texts}/dtConfigVersion.cmake VERSION ${DT_VERSION} COMPATIBILITY SameMajorVersion)
configure_package_config_file(cmake/dtConfig.cmake.in ${texts}/dtConfig.cmake INSTALL_DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/dt
    NO_SET_AND_CHECK_MACRO NO_CHECK_REQUIRED_COMPONENTS_MACRO)
install(FILES ${texts}/dtConfig.cmake ${texts}/dtConfigVersion.cmake DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/dt)
install(FILES include/dt_status.h include/dt.hpp DESTINATION include)
install(DIRECTORY examples/ DESTINATION share/dt/examples USE_SOURCE_PERMISSIONS PATTERN __pycache__ EXCLUDE)
install(FILES LICENSE DESTINATION share/doc/dt)
