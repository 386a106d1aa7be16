package cli

import (
	"fmt"

	"github.com/urfave/cli/v2"

	"homelab/lab"
)

// The scripts ask the program itself for the words, as urfave/cli has it (--generate-bash-completion), so they never go stale.
var completions = map[string]string{
	"bash": `_lab() {
  local cur words
  cur="${COMP_WORDS[COMP_CWORD]}"
  words=("${COMP_WORDS[@]:0:COMP_CWORD}")
  [[ "$cur" == -* ]] && words+=("$cur")
  COMPREPLY=($(compgen -W "$("${words[@]}" --generate-bash-completion 2>/dev/null | cut -d: -f1)" -- "$cur"))
}
complete -o bashdefault -o default -F _lab lab
`,
	"zsh": `#compdef lab
_lab() {
  local -a opts
  local cur="${words[-1]}"
  if [[ "$cur" == -* ]]; then
    opts=("${(@f)$(${words[@]:0:#words[@]-1} ${cur} --generate-bash-completion 2>/dev/null)}")
  else
    opts=("${(@f)$(${words[@]:0:#words[@]-1} --generate-bash-completion 2>/dev/null)}")
  fi
  [[ -n "${opts[1]}" ]] && _describe 'values' opts || _files
}
compdef _lab lab
`,
	"fish": `function __lab_words
  set -l words (commandline -opc)
  set -l cur (commandline -ct)
  string match -q -- '-*' $cur; and set words $words $cur
  $words --generate-bash-completion 2>/dev/null | string replace -r '^([^:]*):' '$1\t'
end
complete -c lab -f -a '(__lab_words)'
`,
}

func (p *program) completionCommand() *cli.Command {
	return &cli.Command{
		Name:        "completion",
		Usage:       "print the completion script of a shell",
		ArgsUsage:   "bash|zsh|fish",
		Description: examples("source <(lab completion bash)", "lab completion zsh > ~/.zfunc/_lab", "lab completion fish | source"),
		BashComplete: func(c *cli.Context) {
			for _, shell := range []string{"bash", "zsh", "fish"} {
				fmt.Fprintln(c.App.Writer, shell)
			}
		},
		Action: func(c *cli.Context) error {
			script, ok := completions[c.Args().First()]
			if !ok || c.NArg() != 1 {
				return &lab.Error{Exit: lab.ExitInvalid, Code: "usage", Message: "lab completion takes the name of a shell", Cure: "lab completion bash, zsh or fish"}
			}
			p.ui.Raw(script)
			return nil
		},
	}
}
