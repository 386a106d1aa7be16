package main

import (
	"encoding/json"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"homelab/lab/supply/ends"
)

// Row is a pin with what is known of newer versions, for people and as JSON.
type Row struct {
	What           What     `json:"what"`
	Name           string   `json:"name"`
	Version        string   `json:"version"`
	Newest         string   `json:"newest"`          // served; "" if unknown
	NewestOfMinor  string   `json:"newest_of_minor"` // likewise
	Unknown        string   `json:"unknown"`         // why
	Product        string   `json:"product"`         // in the table of ends; "" if it has none
	SupportedUntil string   `json:"supported_until"` // "2027-02-28", "release of 3.9", "unknown: REASON"
	Ended          bool     `json:"ended"`
	Where          []string `json:"where"` // FILE:LINE
}

// rows joins pins with answers and ends.
func rows(pins []*Pin, answers map[Source]answer, now time.Time) ([]Row, error) {
	products, err := ends.Embedded()
	if err != nil {
		return nil, err
	}
	list := make([]Row, 0, len(pins))
	for _, p := range pins {
		r := Row{What: p.What, Name: p.Name, Version: p.Version, Unknown: answers[p.Source].unknown}
		if r.Unknown == "" {
			if r.Newest, r.NewestOfMinor = newest(p.Version, answers[p.Source].versions); r.Newest == "" {
				r.Unknown = "nothing of the form of " + p.Version + " is served"
			}
		}
		name := p.Name
		if p.What == Chart || p.What == Module {
			name = p.Source.Name // a chart of a registry has versions of its own
		}
		if p.What != Chart || p.Source.Of == Module {
			s := ends.Find(products, name, p.Version, r.Newest, now)
			r.Product, r.SupportedUntil, r.Ended = s.Product, s.Until, s.Ended
		}
		for _, at := range p.At {
			r.Where = append(r.Where, lineOf(at))
		}
		list = append(list, r)
	}
	return list, nil
}

func lineOf(at Place) string { return fmt.Sprintf("%s:%d", at.File, at.Line) }

// printJSON writes rows as a document.
func printJSON(w io.Writer, list []Row) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	return enc.Encode(map[string][]Row{"pins": list})
}

// printTable writes rows for people.
func printTable(w io.Writer, list []Row) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "WHAT\tNAME\tPINNED\tNEWEST\tOF ITS MINOR\tSUPPORTED UNTIL\tWHERE")
	for _, r := range list {
		newest, minor, until, where := r.Newest, r.NewestOfMinor, r.SupportedUntil, r.Where[0]
		if r.Unknown != "" {
			newest, minor = "unknown: "+r.Unknown, "-"
		}
		if minor == "" {
			minor = "-"
		}
		switch {
		case until == "":
			until = "-"
		case r.Ended:
			until += " (ended)"
		}
		if more := len(r.Where) - 1; more > 0 {
			where += fmt.Sprintf(" and %d more", more)
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", r.What, r.Name, r.Version, newest, minor, until, where)
	}
	return t.Flush()
}
