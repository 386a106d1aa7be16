_lab() {
  local cur="${COMP_WORDS[COMP_CWORD]}"
  COMPREPLY=($(compgen -W "$("${COMP_WORDS[@]:0:COMP_CWORD+1}" --generate-completion 2>/dev/null | cut -d: -f1)" -- "$cur"))
  [[ ${#COMPREPLY[@]} == 1 && "${COMPREPLY[0]}" == *= ]] && compopt -o nospace 2>/dev/null
  return 0
}
complete -o bashdefault -o default -F _lab lab
