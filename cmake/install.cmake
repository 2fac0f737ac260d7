# cmake --install BUILD --prefix PREFIX: what a user of the project needs, in any folder, which may be moved as a whole: programs and libraries find
# what lies in ../lib. Components, of which scripts/package.sh makes a package each: runtime, compiler, development.

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

function(dt_install_program program component)
    install(TARGETS ${program} RUNTIME DESTINATION bin COMPONENT ${component})
    install(DIRECTORY ${texts}/man/${program}/ DESTINATION share/man/man1 COMPONENT ${component} OPTIONAL)
    install(FILES ${texts}/completions/${program}.bash RENAME ${program} DESTINATION share/bash-completion/completions COMPONENT ${component})
    install(FILES ${texts}/completions/_${program} DESTINATION share/zsh/site-functions COMPONENT ${component})
    install(FILES ${texts}/completions/${program}.fish DESTINATION share/fish/vendor_completions.d COMPONENT ${component})
endfunction()
dt_install_program(dtrun runtime)
dt_install_program(dtc compiler)

foreach(family openmpi mpich abi)
    if(TARGET dt_mpi_${family})
        install(TARGETS dt_mpi_${family} LIBRARY DESTINATION lib COMPONENT runtime)
    endif()
endforeach()

# dt_install_library(NAME COMPONENT DESCRIPTION PRIVATE): lib/libNAME.so.0 and what programs are built with. PRIVATE: what a program that
# links libNAME.a links besides.
function(dt_install_library name component description private)
    install(TARGETS ${name}_shared LIBRARY DESTINATION lib COMPONENT ${component} NAMELINK_COMPONENT development)
    install(FILES ${CMAKE_SOURCE_DIR}/include/${name}.h DESTINATION include COMPONENT development)
    install(FILES ${CMAKE_BINARY_DIR}/lib${name}.a DESTINATION lib COMPONENT development)
    configure_file(${CMAKE_SOURCE_DIR}/cmake/library.pc.in ${texts}/${name}.pc @ONLY)
    install(FILES ${texts}/${name}.pc DESTINATION lib/pkgconfig COMPONENT development)
endfunction()
dt_install_library(dtc compiler "The compiler of .dt programs" "-lLLVM-${LLVM_VERSION_MAJOR} -lminizip -lcjson -lnettle -lz -lpthread -ldl -lm")
dt_install_library(dtrt runtime "Training and inference with compiled .dt programs"
    "-lcjson -lminizip -lpng -ljpeg -lprotobuf-c -lutf8proc -lz -lnettle -lpthread -ldl -lm")

include(CMakePackageConfigHelpers)
write_basic_package_version_file(${texts}/dtConfigVersion.cmake VERSION ${DT_VERSION} COMPATIBILITY SameMajorVersion)
install(FILES cmake/dtConfig.cmake ${texts}/dtConfigVersion.cmake DESTINATION lib/cmake/dt COMPONENT development)
install(FILES include/dt_status.h include/dt.hpp DESTINATION include COMPONENT development)
install(DIRECTORY examples/ DESTINATION share/dt/examples COMPONENT development USE_SOURCE_PERMISSIONS PATTERN __pycache__ EXCLUDE)
install(FILES LICENSE DESTINATION share/doc/dt COMPONENT runtime)

# Packages of Debian, one a component: scripts/package.sh. What they depend on is what dpkg-shlibdeps finds that they load.
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME dt)
set(CPACK_PACKAGE_VERSION ${DT_VERSION})
set(CPACK_PACKAGE_CONTACT "The maintainers of dt <maintainers@localhost>")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_PACKAGE_DIRECTORY ${CMAKE_BINARY_DIR}/packages)
set(CPACK_STRIP_FILES ON)
set(CPACK_COMPONENTS_ALL runtime compiler development)
set(CPACK_COMPONENTS_GROUPING IGNORE)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_RUNTIME_PACKAGE_NAME dt-runtime)
set(CPACK_DEBIAN_RUNTIME_PACKAGE_RECOMMENDS "libzmq5") # loaded when parameter servers are asked for
set(CPACK_COMPONENT_RUNTIME_DESCRIPTION "dtrun and libdtrt: train and run compiled neural networks")
set(CPACK_DEBIAN_COMPILER_PACKAGE_NAME dt-compiler)
set(CPACK_DEBIAN_COMPILER_PACKAGE_DEPENDS "libllvm${LLVM_VERSION_MAJOR}") # which dpkg-shlibdeps misses: it is found by a link of LLVM's own
set(CPACK_DEBIAN_COMPILER_PACKAGE_RECOMMENDS "dt-runtime (= ${DT_VERSION})")
set(CPACK_COMPONENT_COMPILER_DESCRIPTION "dtc and libdtc: compile programs of neural networks")
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_NAME dt-dev)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_DEPENDS "dt-runtime (= ${DT_VERSION}), dt-compiler (= ${DT_VERSION})")
set(CPACK_COMPONENT_DEVELOPMENT_DESCRIPTION "Headers and libraries of dt, to build applications with; examples")
include(CPack)
