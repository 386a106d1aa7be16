package doctor

import (
	"context"
	"errors"
	"strings"
	"syscall"
	"time"

	"homelab/lab"
	"homelab/lab/docker"
)

// engineTimeout is the timeout of a check whether the engine still answers.
const engineTimeout = 5 * time.Second

// Cure adds a cure to an error without one if the machine is the cause: a full disk or a lost container engine.
func Cure(err error) error { return withEngine(withSpace(err)) }

// withSpace explains a full disk.
func withSpace(err error) error {
	var e *lab.Error
	if errors.As(err, &e) && e.Cure != "" {
		return err
	}
	cure := ""
	switch {
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		cure = "free space there"
	case errors.Is(err, docker.ErrNoSpace):
		cure = "free space where docker keeps its data (docker system df)"
	default:
		return err
	}
	return &lab.Error{Exit: lab.ExitFailed, Code: "no_space", Message: "no space left on a disk", Cure: cure + ", then run the command again: it resumes", Err: err}
}

// withEngine explains a lost container engine.
func withEngine(err error) error {
	var e *lab.Error
	if err == nil || errors.As(err, &e) && e.Cure != "" || !strings.Contains(err.Error(), "docker") {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), engineTimeout)
	defer cancel()
	if _, gone := docker.New().Info(ctx); gone == nil {
		return err
	}
	return &lab.Error{
		Exit: lab.ExitFailed, Code: "no_engine", Message: "the docker engine stopped responding", Err: err,
		Details: []string{"the lab's containers and their data are kept"}, Cure: "as root on Linux: lab up --fix; else start it, then lab up",
	}
}
