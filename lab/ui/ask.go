package ui

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
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
	if !u.Asks() {
		return false, nil
	}
	for _, line := range lines {
		u.Println(line)
	}
	u.Println(question + " yes or no:")
	line, err := u.answer(ctx)
	return strings.EqualFold(line, "yes"), err
}

// Asks reports whether a question can be answered.
func (u *UI) Asks() bool { return !u.opts.JSON && u.opts.In != nil }

// Choose asks for one of several, by number or as it is. An empty line is the first.
func (u *UI) Choose(ctx context.Context, question string, of []string) (string, error) {
	u.Println(question)
	for i, one := range of {
		u.Println(fmt.Sprintf("  %d  %s", i+1, one))
	}
	for {
		u.Println("number, or enter for the first:")
		line, err := u.answer(ctx)
		n, number := strconv.Atoi(line)
		switch {
		case err != nil:
			return "", err
		case line == "":
			return of[0], nil
		case slices.Contains(of, line):
			return line, nil
		case number == nil && n > 0 && n <= len(of):
			return of[n-1], nil
		}
	}
}

// answer reads a line. At the end of the input, it is empty.
func (u *UI) answer(ctx context.Context) (string, error) {
	answer := make(chan string, 1)
	go func() { // a read cannot be cancelled; it ends with the process
		line, _ := bufio.NewReader(u.opts.In).ReadString('\n')
		answer <- strings.TrimSpace(line)
	}()
	select {
	case line := <-answer:
		return line, nil
	case <-ctx.Done():
		return "", context.Cause(ctx)
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
