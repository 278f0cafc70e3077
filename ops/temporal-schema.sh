#!/bin/sh
# Creates the two databases of Temporal and brings their schemas up to date; safe to repeat.
set -eu
for name in temporal visibility; do
  database=temporal
  [ "$name" = temporal ] || database=temporal_visibility
  tool="temporal-sql-tool --plugin postgres12 --endpoint $POSTGRES_SEEDS --port 5432 --user $POSTGRES_USER --database $database"
  $tool create
  $tool setup-schema --version 0.0
  $tool update-schema --schema-dir "/etc/temporal/schema/postgresql/v12/$name/versioned"
done
