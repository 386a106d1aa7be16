package render

import "strings"

const (
	maxNested    = 1_000 // variables in the defaults of others: the parser and the evaluator are recursive
	squaresAStep = 64    // characters that a pattern is tried at, in a step
)

// expansion spends what the substitution of variables may make of a text and takes for it. It is more than it makes where a replacement has variables itself.
func (b *Budget) expansion(text string, variables map[string]string) error {
	longest := 0
	for _, v := range variables {
		longest = max(longest, len(v))
	}
	made, steps, open, all := float64(len(text)), 0.0, 0, float64(strings.Count(text, "${"))
	for rest := text; ; {
		i := strings.IndexAny(rest, "$}")
		if i < 0 {
			break
		}
		at := rest[i]
		rest = rest[i+1:]
		if at == '}' {
			open = max(0, open-1)
			continue
		}
		if !strings.HasPrefix(rest, "{") {
			continue
		}
		if open++; open > maxNested {
			return over("more than %d variables that nest in one another", maxNested)
		}
		inner := strings.TrimPrefix(rest[1:], "#")
		name := inner[:len(inner)-len(strings.TrimLeft(inner, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_"))]
		size, argument := float64(len(variables[name])), inner[len(name):]
		made += size
		switch {
		case strings.HasPrefix(argument, "/"), strings.HasPrefix(argument, "#"), strings.HasPrefix(argument, "%"):
			operator := argument[0]
			argument, _, _ = strings.Cut(argument, "}")
			length := float64(len(argument))
			if strings.Contains(argument, "$") {
				length += all * float64(longest)
			}
			if operator == '/' {
				made += size * length
			} else { // a pattern is tried at every place, of every part
				steps += size * size * length / squaresAStep
			}
		}
	}
	if made > maxOutput {
		return over("its variables may make more than %d MiB of it", maxOutput>>20)
	}
	if steps > maxSteps {
		return errEndless
	}
	if err := b.step(int(steps)); err != nil {
		return err
	}
	return b.take(0, int(made))
}
