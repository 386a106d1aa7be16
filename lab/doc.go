// Package lab is the vocabulary of the product: the estate, what it is made of, what was seen of it, and how failures are reported.
// It imports the standard library alone, so that every other package may import it.
package lab
