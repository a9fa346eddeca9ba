// Package contract defines the interface between the services and to their callers: the topics, the items of each
// message, and the refusals with their stable codes. It imports the standard library only, so that every core may use
// it.
//
// Messages are JSON of the form {"v":1,"items":[...]}. Fields are only ever added; a consumer ignores unknown
// fields. Golden files under testdata pin the wire format.
package contract
