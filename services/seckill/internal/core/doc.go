// Package core holds the rules of the purchase path: which buyer gets a path, how a purchase is decided, and which
// purchases a buyer may read. It contains neither HTTP nor Redis; ports.go declares the
// interfaces that it needs.
package core
