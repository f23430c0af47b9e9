# cmake -DFILE=... -DDATABASE=compile_commands.json -P check.cmake
# FILE must be refused by the compiler, with the flags of the build, for the reason that its first line names:
#   // expect: words that the compiler's output must contain | or these, when compilers say it differently
# A file that uses MIXTAPE_CORRECTED must compile when that is defined: the refusal then comes from that line alone.
cmake_minimum_required(VERSION 3.25)

file(STRINGS ${FILE} first_line LIMIT_COUNT 1)
if(NOT first_line MATCHES "^// expect: (.+)$")
  message(FATAL_ERROR "${FILE}:1: must be '// expect: words of the compiler error'")
endif()
set(expected "${CMAKE_MATCH_1}")

file(READ ${DATABASE} database)
string(JSON count LENGTH "${database}")
math(EXPR last "${count} - 1")
foreach(i RANGE ${last})
  string(JSON entry_file GET "${database}" ${i} file)
  if(entry_file STREQUAL FILE)
    string(JSON command GET "${database}" ${i} command)
    string(JSON directory GET "${database}" ${i} directory)
  endif()
endforeach()
if(NOT command)
  message(FATAL_ERROR "${FILE}: not in ${DATABASE}")
endif()

# Syntax and templates only; into `result` and `output`.
macro(compile)
  execute_process(COMMAND sh -c "${command} -fsyntax-only ${ARGN}" WORKING_DIRECTORY ${directory}
    RESULT_VARIABLE result OUTPUT_VARIABLE output ERROR_VARIABLE output)
endmacro()

compile()
if(result EQUAL 0)
  message(FATAL_ERROR "${FILE}: compiled, but must be refused with '${expected}'")
endif()
string(REPLACE " | " ";" alternatives "${expected}")
set(place -1)
foreach(words IN LISTS alternatives)
  string(FIND "${output}" "${words}" found)
  if(NOT found EQUAL -1)
    set(place ${found})
  endif()
endforeach()
if(place EQUAL -1)
  message(FATAL_ERROR "${FILE}: refused, but not with '${expected}':\n${output}")
endif()

file(STRINGS ${FILE} corrected REGEX "MIXTAPE_CORRECTED")
if(corrected)
  compile(-DMIXTAPE_CORRECTED)
  if(NOT result EQUAL 0)
    message(FATAL_ERROR "${FILE}: must compile with MIXTAPE_CORRECTED, but:\n${output}")
  endif()
endif()
