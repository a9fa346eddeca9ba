// Package fairness is a model of a sale to humans and robots. It computes which share of the units robots get, with each
// control of the purchase path on and off, and how many humans a control refuses by mistake.
//
// The model is a discrete-event simulation: no request is sent. Where the services decide, it uses their code or their
// rules: pkg/draw for the places of a waiting room, pkg/ratelimit with the rules of production for the limits. What the
// gate and the waiting room decide is a few lines here, named after the documents that specify them.
//
// Parameters holds every assumption with its source. A change of a parameter after the first run is listed with its
// effect in docs/fairness.md, which cmd/fairness writes.
package fairness

//go:generate go run ./cmd/fairness -write ../../docs/fairness.md -small testdata/small.txt
