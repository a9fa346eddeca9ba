// Command order runs the order service.
package main

import (
	"slices"

	"flashsale.internal/pkg/command"
)

func main() {
	command.Main(command.Spec{
		Name: "order", Serve: serve, CheckConfig: checkConfig,
		Migrate: migrate, Await: awaitMigrations,
		More: slices.Concat(contactCommands(), paymentCommands()),
	})
}
