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
}

// Addons prints `lab addon ls`.
func (u *UI) Addons(res AddonResult) error {
	if u.opts.JSON {
		return u.JSON(res)
	}
	table := Table{Head: []string{"ADDON", "ON", "OFF", "IMAGES", "SIZE", "TO BUILD"}, Right: []int{3, 4, 5}}
	for _, a := range res.Addons {
		row := []string{a.Name, cmp.Or(strings.Join(a.On, ","), "-"), cmp.Or(strings.Join(a.Off, ","), "-"), fmt.Sprint(len(a.Images)), "-", "-"}
		if a.Bytes > 0 {
			row[4] = Size(a.Bytes)
		}
		if n := len(a.Missing); n > 0 {
			row[5] = fmt.Sprint(n)
			if a.Seconds > 0 {
				row[5] += ", " + Duration(time.Duration(a.Seconds*float64(time.Second)))
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
