#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# ccached.sh COMPILER ARGUMENT...: compiles through ccache.
# ccache looks for an object by what the preprocessor prints, and that takes a precompiled header that
# is there from the file and not from its text. An old one is therefore removed before it is made
# again: else two copies of a tree, changed in different ways, get one of them's header.
for argument; do
  case $argument in
    *.gch) rm -f "$argument" ;;
  esac
done
# Objects made with precompiled headers are kept only where macros may be taken as they are.
CCACHE_SLOPPINESS=pch_defines,time_macros exec ccache "$@"
