"""Schedules and the books of their months, in both databases."""

import asyncio
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest
from attempts import attempt

