// Package gitcommand runs git in clones of strangers, without anything that a clone could make it do.
//
// A run has a bare repository of lab's own as its GIT_DIR, with the clone's objects as an alternate: none of the clone's configuration, hooks, remotes or filters.
package gitcommand

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"

	"homelab/lab"
)

// Command is a run of git.
type Command struct {
	Dir    string // working folder; default: a neutral one
	Limit  time.Duration
	Env    []string // in addition to the pinned environment
	Config []string // "key=value"
	Stdin  io.Reader
	Remote Remote // that the run may reach; default: none
	Strict bool   // warnings are errors

	// AsUser runs git with the user's configuration and helpers. It is for addresses that the user named himself.
	AsUser bool

	values bool // reads the user's configuration, as values
}

// Remote is the address of a repository and the credentials for it.
type Remote struct {
	URL            string // http, https, or a path
	User, Password string // may be empty
}

// Available returns an error if there is no git.
func Available() error {
	if _, err := exec.LookPath("git"); err != nil {
		return &lab.Error{Exit: lab.ExitFailed, Code: "no_git", Message: "git is not on PATH", Cure: "install git", Err: err}
	}
	return nil
}

// pinned is the configuration of every run. The clone's own counts only in Clone.run and where git asks an alternate for its references.
var pinned = []string{
	"core.hooksPath=" + os.DevNull, "core.fsmonitor=false", "core.attributesFile=" + os.DevNull, "core.splitIndex=false", "core.askPass=", "core.sshCommand=false",
	"credential.helper=", "gc.auto=0", "maintenance.auto=false", "submodule.recurse=false", "push.followTags=false", "log.showSignature=false",
	"http.proxy=", "http.followRedirects=false", "http.lowSpeedLimit=1", "http.lowSpeedTime=120", // seconds
}

// Run returns git's output without the trailing newline. An error contains git's own message.
func (c Command) Run(ctx context.Context, args ...string) (string, error) {
	var out bytes.Buffer
	err := c.Pipe(ctx, &out, args...)
	return strings.TrimSuffix(out.String(), "\n"), err
}

// Pipe is like Run with the output written to out.
func (c Command) Pipe(ctx context.Context, out io.Writer, args ...string) error {
	if err := Available(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, c.Limit, fmt.Errorf("git %s took longer than %s", args[0], c.Limit))
	defer cancel()
	var all []string
	settings := c.Config
	if !c.AsUser {
		settings = slices.Concat(pinned, c.Config)
	}
	for _, setting := range settings {
		all = append(all, "-c", setting)
	}
	cmd := exec.CommandContext(ctx, "git", append(append(all, "--no-pager"), args...)...)
	cmd.Dir = c.Dir
	if c.Dir == "" && !c.AsUser {
		cmd.Dir = os.TempDir()
	}
	cmd.Env = append(c.environment(), c.Env...)
	cmd.Stdin, cmd.Stdout = c.Stdin, out
	cmd.WaitDelay = 3 * time.Second // the transport, which outlives a killed git, keeps the pipes open
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	err := cmd.Run()
	switch message := strings.TrimSpace(stderr.String()); {
	case err == nil:
		if !c.Strict || message == "" {
			return nil
		}
		err = errors.New(essence(message))
	case ctx.Err() != nil:
		err = context.Cause(ctx)
	case message != "":
		err = errors.New(essence(message))
	}
	return fmt.Errorf("git %s: %w", args[0], err)
}

// environment returns the variables of a run: the user's without what redirects git.
func (c Command) environment() []string {
	env := slices.DeleteFunc(os.Environ(), func(e string) bool {
		name, _, _ := strings.Cut(e, "=")
		switch {
		case c.AsUser: // drop only those of a hook that lab may run in
			return slices.Contains([]string{"GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_PREFIX", "GIT_COMMON_DIR", "GIT_OBJECT_DIRECTORY"}, name)
		case strings.HasPrefix(name, "GIT_AUTHOR_"), strings.HasPrefix(name, "GIT_COMMITTER_"):
			return false
		case c.values && slices.Contains([]string{"GIT_CONFIG_NOSYSTEM", "GIT_CONFIG_SYSTEM", "GIT_CONFIG_GLOBAL"}, name):
			return false
		}
		return strings.HasPrefix(name, "GIT_") || strings.HasSuffix(strings.ToLower(name), "_proxy") || slices.Contains([]string{"SSH_ASKPASS", "PAGER", "EDITOR", "VISUAL"}, name)
	})
	env = append(env, "GIT_TERMINAL_PROMPT=0", "LC_ALL=C")
	if c.AsUser {
		return env
	}
	allowed := "none"
	if c.Remote.URL != "" {
		allowed = "file"
		if u, err := url.Parse(c.Remote.URL); err == nil && (u.Scheme == "http" || u.Scheme == "https") {
			allowed = u.Scheme
		}
	}
	if !c.values {
		env = append(env, "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL="+os.DevNull)
	}
	env = append(env,
		"GIT_ATTR_NOSYSTEM=1", "GIT_CEILING_DIRECTORIES=/", "GIT_ASKPASS=", "GIT_PROTOCOL_FROM_USER=0",
		"GIT_ALLOW_PROTOCOL="+allowed, "GIT_NO_LAZY_FETCH=1", "GIT_NO_REPLACE_OBJECTS=1", "GIT_OPTIONAL_LOCKS=0",
	)
	if c.Remote.Password == "" {
		return env
	}
	// In the environment, which other users cannot read, and for this address alone.
	header := "Authorization: Basic " + base64.StdEncoding.EncodeToString([]byte(c.Remote.User+":"+c.Remote.Password))
	return append(env, "GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=http."+c.Remote.URL+".extraHeader", "GIT_CONFIG_VALUE_0="+header)
}

// essence returns the relevant part of git's message: the server's reason for a rejected push, else the first fatal line, else the first line.
func essence(message string) string {
	var rejected, said []string
	for line := range strings.Lines(message) {
		line = strings.TrimSpace(line)
		if text, ok := strings.CutPrefix(line, "! ["); ok {
			rejected = append(rejected, "["+text)
		}
		if text, ok := strings.CutPrefix(line, "remote: "); ok && strings.TrimSpace(text) != "" {
			said = append(said, strings.TrimSpace(text))
		}
	}
	if len(rejected) > 0 {
		return strings.Join(append(rejected, said...), "; ")
	}
	_, fatal, ok := strings.Cut("\n"+message, "\nfatal: ")
	if !ok {
		fatal = message
	}
	line, _, _ := strings.Cut(fatal, "\n")
	return line
}
