if(MIXTAPE_SANITIZE)
  target_compile_options(mixtape_flags INTERFACE -fsanitize=${MIXTAPE_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=undefined)
  target_link_options(mixtape_flags INTERFACE -fsanitize=${MIXTAPE_SANITIZE})
endif()
