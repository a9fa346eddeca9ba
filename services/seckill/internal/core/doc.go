// Package core holds the rules of the purchase path: who gets a path, what a purchase is answered, what a buyer may see
// of it. It knows neither HTTP nor Redis; what it needs of the world it names in ports.go.
package core
