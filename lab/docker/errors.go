package docker

import (
	"errors"
	"fmt"
	"regexp"
	"strings"

	"homelab/lab"
)

// Error is a failed docker command.
type Error struct {
	Args   []string
	Stderr string // trimmed
	Err    error
}

func (e *Error) Error() string {
	msg := e.Stderr
	if msg == "" {
		msg = e.Err.Error()
	}
	return fmt.Sprintf("docker %s: %s", e.Args[0], msg)
}

func (e *Error) Unwrap() error { return e.Err }

// Cause is a reason that the engine gives, for errors.Is. The docker command passes on the engine's words and no code, so a Cause is a regular expression that
// matches those of several versions. The engine's API is no better: it has one status for several of these, and 500 for the others.
type Cause string

// Causes that lab handles.
const (
	ErrNotFound     Cause = `no such|not found`
	ErrRemoved      Cause = `no such container|is already in progress`                                 // or being removed
	ErrNameTaken    Cause = `is already in use by container`                                           // a container's
	ErrInUse        Cause = `volume is in use|is using its referenced image|is being used by`          // a volume or image
	ErrNoFile       Cause = `could not find the file|no such container:path|no such file or directory` // in an existing container
	ErrNotPaused    Cause = `is not paused`
	ErrNoExit       Cause = `did not receive an exit event` // of a killed container
	ErrOverlaps     Cause = `pool overlaps with other one|networks have overlapping`
	ErrNoIPv6       Cause = `ip6tables|ipv6` // disabled, missing in the kernel, or without ip6tables (https://github.com/kubernetes-sigs/kind/issues/1544)
	ErrNoSpace      Cause = `no space left on device`
	ErrCapabilities Cause = `unable to apply caps` // the host lacks some of a privileged container's

	errNoNetwork    Cause = `network .* not found`
	errConnected    Cause = `already exists in network`
	errNotConnected Cause = `is not connected`
)

func (c Cause) Error() string { return "docker: " + string(c) }

// silent matches errors of a client that could not reach its engine. They contain "no such file" and "not found", too, but about sockets, hosts and contexts.
var silent = regexp.MustCompile(`(?i)cannot connect to the docker daemon|failed to connect to the docker API|error during connect|failed to initialize|docker endpoint|\bdial (?:unix|tcp)`)

// Is reports whether the engine said why, and the reason is target.
func (e *Error) Is(target error) bool {
	c, ok := target.(Cause)
	return ok && !silent.MatchString(e.Stderr) && regexp.MustCompile("(?i)"+string(c)).MatchString(e.Stderr)
}

// NotFound reports whether err means that an object does not exist.
func NotFound(err error) bool { return errors.Is(err, ErrNotFound) }

// Prints reports whether err is of a command in a container that printed text to stderr.
func Prints(err error, text string) bool {
	var de *Error
	return errors.As(err, &de) && strings.Contains(de.Stderr, text)
}

// taken matches the error of an occupied port, in several engine versions' words.
var taken = regexp.MustCompile(`(?:Bind for|listen tcp4?|listen udp4?|bind host port(?: for)?) (\d+\.\d+\.\d+\.\d+:\d+).*(?:port is already allocated|address already in use)`)

// PortTaken returns an error if docker's output reports an occupied port, else nil.
func PortTaken(text string) error {
	m := taken.FindStringSubmatch(text)
	if m == nil {
		return nil
	}
	return &lab.Error{
		Exit: lab.ExitFailed, Code: "port_taken", Message: "another process listens on " + m[1],
		Cure: "stop it or choose another port: extraPortMappings in cluster.yaml, else lab down and lab up",
	}
}
