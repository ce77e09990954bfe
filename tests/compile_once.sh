#!/bin/sh
# g++ that compiles a kernel of TileLang once: the same text with the same options has the same library. For a new one
# it reads the header, which takes longer than the kernel, precompiled. Anything else, and what the folder `kept`
# cannot be written for, is g++ as ever. It stands first on the PATH as g++; see pytest_configure.
here=$(dirname "$0")
kept=$here/kept
# Wherever it stands: nvcc puts folders of its own before it.
PATH=$(printf %s "$PATH" | tr : '\n' | grep -vxF "$here" | paste -sd : -)
options='' source='' output='' templates='' shared='' next=''
for argument in "$@"; do
    if [ "$next" ]; then
        output=$argument next=''
        continue
    fi
    case $argument in
        -o) next=output ;;
        *.cpp) source=$source$argument ;;
        -shared) shared=yes ;;
        -I*/src)
            templates=${argument#-I}
            options="$options $argument"
            ;;
        *) options="$options $argument" ;;
    esac
done
header=tl_templates/cpp/common.h
if ! [ -f "$source" ] || ! [ "$output" ] || ! [ "$shared" ] || ! [ -f "$templates/$header" ]; then
    exec g++ "$@"
fi
key=$({ echo "$options"; cat "$source"; } | sha256sum)
key=${key%% *}
if cp "$kept/$key" "$output" 2> /dev/null; then
    exit
fi
headers=$kept/headers/$header.gch
kind=$(echo "$options" | sha256sum)
kind=${kind%% *}
# Worth its seconds for options that come again and again.
if mkdir -p "$headers" 2> /dev/null && echo >> "$kept/$kind.seen" && ! [ -e "$headers/$kind" ] &&
    [ "$(wc -l < "$kept/$kind.seen")" -gt 2 ] && mkdir "$kept/$kind.begun" 2> /dev/null; then
    # shellcheck disable=SC2086
    g++ $options -x c++-header "$templates/$header" -o "$kept/$kind.gch" 2> /dev/null &&
        mv "$kept/$kind.gch" "$headers/$kind"
fi 2> /dev/null
g++ "-I$kept/headers" "$@" || exit
cp "$output" "$kept/$key.$$" 2> /dev/null && mv "$kept/$key.$$" "$kept/$key"
exit 0
