#compdef lab
_lab() {
  local -a words_of_lab
  words_of_lab=("${(@f)$("${(@)words[1,CURRENT]}" --generate-completion 2>/dev/null)}")
  if [[ -n "${words_of_lab[1]}" ]]; then
    _describe 'lab' words_of_lab
  else
    _files
  fi
}
compdef _lab lab
