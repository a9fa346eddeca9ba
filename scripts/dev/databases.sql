-- Creates the databases of the services. Run by scripts/dev/dependencies, and by compose.yaml on an empty volume.
CREATE DATABASE IF NOT EXISTS flashsale_inventory CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;
CREATE DATABASE IF NOT EXISTS flashsale_order CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;
