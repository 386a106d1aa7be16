function __lab_words
  set -l line (commandline -opc) (commandline -ct)
  set -l found ($line --generate-completion 2>/dev/null | string replace -r '^([^:]*):' '$1\t')
  if test (count $found) -gt 0
    string join \n -- $found
  else
    __fish_complete_path (commandline -ct)
  end
end
complete -c lab -f -a '(__lab_words)'
