package ui

import (
	"bufio"
	"context"
	"errors"
	"io"
	"os"
	"strings"
)

// Ask asks a yes-no question and lists what yes would destroy. Without a terminal, the answer is no.
func (u *UI) Ask(ctx context.Context, question string, loses []string) (bool, error) {
	lines := make([]string, len(loses))
	for i, what := range loses {
		lines[i] = "would lose " + what
	}
	return u.Confirm(ctx, question, lines)
}

// Confirm asks a yes-no question below the lines that it is about. Without a terminal, the answer is no.
func (u *UI) Confirm(ctx context.Context, question string, lines []string) (bool, error) {
	if u.opts.JSON || u.opts.In == nil {
		return false, nil
	}
	for _, line := range lines {
		u.Println(line)
	}
	u.Println(question + " yes or no:")
	answer := make(chan string, 1)
	go func() { // a read cannot be cancelled; it ends with the process
		line, _ := bufio.NewReader(u.opts.In).ReadString('\n')
		answer <- strings.TrimSpace(line)
	}()
	select {
	case line := <-answer:
		return strings.EqualFold(line, "yes"), nil
	case <-ctx.Done():
		return false, context.Cause(ctx)
	}
}

// Enter returns a function that shows a prompt within a story and waits for enter. EOF is an interrupt.
func (u *UI) Enter() func(ctx context.Context, prompt string) error {
	// One reader for all waits: a read cannot be cancelled, and must not consume the input of the next one.
	lines := make(chan error)
	go func() {
		in := bufio.NewReader(os.Stdin)
		for {
			_, err := in.ReadString('\n')
			lines <- err
			if err != nil {
				return
			}
		}
	}()
	return func(ctx context.Context, prompt string) error {
		u.StoryPrompt(prompt)
		select {
		case err := <-lines:
			if errors.Is(err, io.EOF) {
				return context.Canceled
			}
			return err
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}
