package ui

import (
	"cmp"
	"fmt"
	"strings"
	"time"
)

// AddonResult is `lab addon ls -o json`.
type AddonResult struct {
	Lab    string           `json:"lab"`
	Engine string           `json:"engine"`
	Addons List[AddonEntry] `json:"addons"`
}

// AddonEntry is an addon of the estate.
type AddonEntry struct {
	Name    string       `json:"name"`
	On      List[string] `json:"on"`      // clusters that have it
	Off     List[string] `json:"off"`     // and those that do not
	Images  List[string] `json:"images"`  // that lab provides for it, in any cluster
	Bytes   int64        `json:"bytes"`   // of those that are on this machine
	Missing List[string] `json:"missing"` // images that are not
	Seconds float64      `json:"seconds"` // that building these from source takes; 0 if they come from elsewhere
	// What it took where it was measured; 0 if it was not.
	MissingBytes int64   `json:"missing_bytes"` // of the missing images
	Memory       int64   `json:"memory"`        // bytes, of its pods at rest
	Ready        float64 `json:"ready"`         // seconds until it was healthy, with its images at hand
}

// Addons prints `lab addon ls`.
func (u *UI) Addons(res AddonResult) error {
	if u.opts.JSON {
		return u.JSON(res)
	}
	seconds := func(s float64) string { return Duration(time.Duration(s * float64(time.Second))) }
	table := Table{Head: []string{"ADDON", "ON", "IMAGES", "SIZE", "MEMORY", "READY", "TO BUILD"}, Right: []int{2, 3, 4, 5, 6}}
	for _, a := range res.Addons {
		row := []string{a.Name, cmp.Or(strings.Join(a.On, ","), "-"), fmt.Sprint(len(a.Images)), "-", "-", "-", "-"}
		if size := a.Bytes + a.MissingBytes; size > 0 {
			row[3] = Size(size)
		}
		if a.Memory > 0 {
			row[4] = Size(a.Memory)
		}
		if a.Ready > 0 {
			row[5] = seconds(a.Ready)
		}
		if n := len(a.Missing); n > 0 {
			row[6] = fmt.Sprint(n)
			if a.Seconds > 0 {
				row[6] += ", " + seconds(a.Seconds)
			}
		}
		table.Rows = append(table.Rows, row)
	}
	u.Table(table)
	return nil
}

// AddonSwitch is `lab addon enable|disable -o json`.
type AddonSwitch struct {
	On      bool                `json:"on"`
	Changed List[SwitchedAddon] `json:"changed"`
	Written List[string]        `json:"written"` // manifests that lead Flux to addons
	Removed List[string]        `json:"removed"`
}

// SwitchedAddon is an addon that a cluster now has, or no longer.
type SwitchedAddon struct {
	Addon   string `json:"addon"`
	Cluster string `json:"cluster"`
	File    string `json:"file"` // within the estate
	Line    int    `json:"line"`
}

// AddonsSwitched prints what was switched.
func (u *UI) AddonsSwitched(res AddonSwitch, next string) error {
	if u.opts.JSON {
		return u.JSON(res)
	}
	if len(res.Changed) == 0 {
		u.Println("nothing changes")
		return nil
	}
	verb := "off"
	if res.On {
		verb = "on"
	}
	for _, c := range res.Changed {
		u.Print(fmt.Sprintf("%s  %s in %s  %s:%d", verb, c.Addon, c.Cluster, c.File, c.Line))
	}
	for _, f := range res.Written {
		u.Print("written  " + f)
	}
	for _, f := range res.Removed {
		u.Print("removed  " + f)
	}
	u.Println("next: " + next)
	return nil
}
