package ui

import (
	"fmt"
	"slices"
	"strings"

	"homelab/lab"
)

// Table has a head and rows of equal length.
type Table struct {
	Head  []string
	Rows  [][]string
	Right []int // right-aligned columns: numbers
}

const (
	tableIndent = 2
	tableGap    = 3
)

// Table prints t as data. On a terminal the last column is cut to fit.
func (u *UI) Table(t Table) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.write(u.opts.Out, t.render(u.outWidth(), paint(u.opts.OutColor)))
}

func (t Table) render(columns int, p paint) string {
	var lines [][]string
	if len(t.Head) > 0 {
		lines = append(lines, t.Head)
	}
	lines = append(lines, t.Rows...)
	widths := columnWidths(lines)
	var b strings.Builder
	for i, cells := range lines {
		b.WriteString(spaces(tableIndent))
		left := columns - tableIndent
		for c, cell := range cells {
			cell = clean(cell)
			last := c == len(cells)-1
			if last && columns > 0 {
				cell = truncate(cell, max(8, left-1))
			}
			fill := spaces(widths[c] - width(cell))
			left -= widths[c] + tableGap
			cell = styled(cell, len(t.Head) > 0 && i == 0, p)
			switch {
			case slices.Contains(t.Right, c):
				b.WriteString(fill + cell)
			case last:
				b.WriteString(cell)
			default:
				b.WriteString(cell + fill)
			}
			if !last {
				b.WriteString(spaces(tableGap))
			}
		}
		b.WriteString("\n")
	}
	return trimLines(b.String())
}

// columnWidths ignores the last cell of shorter rows, which may extend to the right.
func columnWidths(rows [][]string) []int {
	columns := 0
	for _, cells := range rows {
		columns = max(columns, len(cells))
	}
	widths := make([]int, columns)
	for _, cells := range rows {
		for c, cell := range cells {
			if c < len(cells)-1 || c == columns-1 {
				widths[c] = max(widths[c], width(clean(cell)))
			}
		}
	}
	return widths
}

// styled dims a head and colors the symbol at the end of a cell.
func styled(cell string, head bool, p paint) string {
	if head {
		return p.text(dim, cell)
	}
	for _, s := range []Symbol{SymbolOK, SymbolFailed} {
		if rest, ok := strings.CutSuffix(cell, string(s)); ok {
			return rest + p.text(s.style(), string(s))
		}
	}
	if rest, ok := strings.CutSuffix(cell, " …"); ok {
		return rest + " " + p.text(yellow, "…")
	}
	return cell
}

func trimLines(s string) string {
	lines := strings.Split(s, "\n")
	for i := range lines {
		lines[i] = strings.TrimRight(lines[i], " ")
	}
	return strings.Join(lines, "\n")
}

// matrix formats clusters × addons. addons orders the columns; others follow by name.
func matrix(clusters []StatusCluster, apps []lab.Application, addons []string, kubernetes bool, columns int, p paint) string {
	cells := map[[2]string][]lab.Application{}
	var more, on []string
	for _, a := range apps {
		if a.Leads {
			continue
		}
		key := [2]string{a.Cluster, a.Addon}
		cells[key] = append(cells[key], a)
		if on = append(on, a.Addon); !slices.Contains(addons, a.Addon) && !slices.Contains(more, a.Addon) {
			more = append(more, a.Addon)
		}
	}
	slices.Sort(more)
	addons = slices.DeleteFunc(append(slices.Clone(addons), more...), func(addon string) bool { return !slices.Contains(on, addon) }) // those that are off everywhere
	head := []string{"CLUSTER", "ENVIRONMENT"}
	if kubernetes {
		head = append(head, "KUBERNETES")
	}
	fixed := make([][]string, len(clusters))
	for i, c := range clusters {
		name := c.Name
		if !c.Ready {
			name += " " + string(SymbolFailed)
		}
		fixed[i] = []string{name, firstOf(c.Environment, "-")}
		if kubernetes {
			fixed[i] = append(fixed[i], firstOf(c.Kubernetes, firstOf(c.State, "-")))
		}
	}
	var b strings.Builder
	for first := true; first || len(addons) > 0; first = false {
		t := Table{Head: slices.Clone(head)}
		for i := range fixed {
			t.Rows = append(t.Rows, slices.Clone(fixed[i]))
		}
		n := 0
		for n < len(addons) {
			t.add(addons[n], clusters, cells)
			if n > 0 && columns > 0 && t.width() > columns-1 {
				t.drop()
				break
			}
			n++
		}
		addons = addons[n:]
		if !first {
			b.WriteString("\n") // more addons go below, with the cluster names repeated
		}
		b.WriteString(t.render(0, p))
		head = head[:1]
		for i := range fixed {
			fixed[i] = fixed[i][:1]
		}
	}
	return b.String()
}

func (t *Table) add(addon string, clusters []StatusCluster, cells map[[2]string][]lab.Application) {
	t.Head = append(t.Head, strings.ToUpper(addon))
	for i, c := range clusters {
		t.Rows[i] = append(t.Rows[i], firstOf(cell(cells[[2]string{c.Name, addon}]), "-"))
	}
}

func (t *Table) drop() {
	t.Head = t.Head[:len(t.Head)-1]
	for i := range t.Rows {
		t.Rows[i] = t.Rows[i][:len(t.Rows[i])-1]
	}
}

func (t *Table) width() int {
	n := tableIndent - tableGap
	for _, w := range columnWidths(append([][]string{t.Head}, t.Rows...)) {
		n += w + tableGap
	}
	return n
}

// cell formats a cluster's applications of an addon: version and status, or how many are healthy. Disabled ones count
// only if there are no others.
func cell(apps []lab.Application) string {
	counted := slices.DeleteFunc(slices.Clone(apps), func(a lab.Application) bool { return a.LeftOut != "" })
	if len(counted) == 0 {
		if len(apps) > 0 {
			return "left out"
		}
		return ""
	}
	sign, well := string(SymbolOK), 0
	for _, a := range counted {
		switch {
		case a.Converged():
			well++
		case a.Health == "Degraded", a.Health == "Missing", a.Sync == "Unknown":
			sign = string(SymbolFailed)
		case sign != string(SymbolFailed):
			sign = "…"
		}
	}
	if len(counted) == 1 {
		return strings.TrimSpace(counted[0].Version + " " + sign)
	}
	return fmt.Sprintf("%d of %d %s", well, len(counted), sign)
}
